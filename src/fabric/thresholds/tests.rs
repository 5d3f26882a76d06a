use super::*;

const SHIPPED: &str = include_str!("../../../assets/thresholds");

/// The names that conventions and the classic file have.
fn is_counter(name: &str) -> bool {
    crate::model::alerts::is_counter(name)
}

fn parse(text: &str) -> (Thresholds, Vec<Problem>) {
    Thresholds::parse(text.as_bytes(), Origin::Named, is_counter)
}

fn rules_of(t: &Thresholds, counter: &str) -> Vec<(u64, Over, Severity)> {
    t.rules
        .iter()
        .filter(|r| r.counter == counter)
        .map(|r| (r.limit, r.over, r.severity))
        .collect()
}

#[test]
fn the_classic_file_reads_as_ibqueryerrors_reads_it() {
    // The lines that the file of infiniband-diags suggests, numbers in C's three notations.
    let text = "# Common errors\n\
        SymbolErrorCounter=10\n\
        LinkDownedCounter = 0x0A\n\
        VL15Dropped=0144 # octal\n\
        \n\
        PortXmitWait=1000\r\n";
    let (t, problems) = parse(text);
    assert_eq!(problems, []);
    assert!(t.whole_values);
    let warning = Severity::Warning;
    for (name, limit, severity) in [
        ("SymbolErrorCounter", 10, warning),
        ("LinkDownedCounter", 10, warning),
        ("VL15Dropped", 100, warning),
        // Many healthy fabrics have some: low severity.
        ("PortXmitWait", 1000, Severity::Info),
    ] {
        assert_eq!(rules_of(&t, name), [(limit, Over::Value, severity)]);
    }
    // What the file does not name keeps its own limits.
    let own = Thresholds::default();
    assert_eq!(
        rules_of(&t, "PortRcvErrors"),
        rules_of(&own, "PortRcvErrors")
    );
}

#[test]
fn rates_shares_and_severities_follow_the_value() {
    let (t, problems) = parse(
        "SymbolErrorCounter=10/h\n\
         SymbolErrorCounter=1000/h:critical\n\
         LinkDownedCounter=2/15min:info\n\
         PortXmitWait=30%/10m:warning\n",
    );
    assert_eq!(problems, []);
    let hour = Over::Window(3_600_000_000_000);
    assert_eq!(
        rules_of(&t, "SymbolErrorCounter"),
        [
            (10, hour, Severity::Warning),
            (1000, hour, Severity::Critical)
        ]
    );
    assert_eq!(
        rules_of(&t, "LinkDownedCounter"),
        [(2, Over::Window(900_000_000_000), Severity::Info)]
    );
    assert_eq!(
        rules_of(&t, "PortXmitWait"),
        [(30, Over::Share(600_000_000_000), Severity::Warning)]
    );
}

#[test]
fn good_lines_count_and_bad_ones_are_named_by_their_number() {
    let (t, problems) = parse(
        "SymbolErrorCounter=ten\n\
         PortRcvErrors=7\n\
         NoSuchCounter=1\n\
         just words\n\
         PortXmitDiscards=1/fortnight\n\
         PortXmitDiscards=1/1s\n\
         PortRcvErrors=30%/h\n\
         PortXmitWait=30%\n\
         PortXmitWait=130%/h\n\
         VL15Dropped=1:loud\n\
         QP1Dropped=\n\
         \u{1b}[2J=1\n",
    );
    let lines: Vec<_> = problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert!(problems.iter().all(|p| !p.what.contains('\u{1b}')));
    assert_eq!(
        rules_of(&t, "PortRcvErrors"),
        [(7, Over::Value, Severity::Warning)]
    );
}

#[test]
fn the_last_line_of_a_kind_counts() {
    let (t, _) = parse("VL15Dropped=1\nVL15Dropped=2\n");
    assert_eq!(
        rules_of(&t, "VL15Dropped"),
        [(2, Over::Value, Severity::Warning)]
    );
}

#[test]
fn a_file_that_nobody_named_judges_only_what_the_session_sees() {
    let text = b"SymbolErrorCounter=10\nPortXmitWait=1000\n";
    let (t, problems) = Thresholds::parse(text, Origin::Found, is_counter);
    assert_eq!(problems, []);
    assert!(!t.whole_values);
    assert_eq!(
        rules_of(&t, "SymbolErrorCounter"),
        [(10, Over::Value, Severity::Warning)]
    );
    assert_eq!(
        rules_of(&t, "PortXmitWait"),
        rules_of(&Thresholds::default(), "PortXmitWait")
    );
}

#[test]
fn the_file_in_assets_says_what_holds_without_one() {
    // Its comments are the only difference: with each # before a limit taken away it is the
    // default.
    let uncommented: String = SHIPPED
        .lines()
        .map(|l| match l.strip_prefix('#') {
            Some(rule) if rule.contains('=') && !rule.starts_with(' ') => format!("{rule}\n"),
            _ => format!("{l}\n"),
        })
        .collect();
    let (t, problems) = parse(&uncommented);
    assert_eq!(problems, []);
    assert_eq!(t.rules, Thresholds::default().rules);
    // As it ships it changes nothing.
    let (t, problems) = parse(SHIPPED);
    assert_eq!(problems, []);
    assert_eq!(t.rules, Thresholds::default().rules);
}

#[test]
fn suppression_is_by_name_and_place() {
    let names = ["VL15Dropped", "LinkDownedCounter@0x20/3", "*@0x30"];
    let t = Thresholds {
        suppress: names.map(|s| s.parse().unwrap()).to_vec(),
        ..Thresholds::default()
    };
    let node = |guid| Some(NodeId::new(guid));
    assert!(t.is_suppressed("VL15Dropped", node(1), Some(1)));
    assert!(!t.is_suppressed("QP1Dropped", node(1), Some(1)));
    assert!(t.is_suppressed("LinkDownedCounter", node(0x20), Some(3)));
    assert!(!t.is_suppressed("LinkDownedCounter", node(0x20), Some(4)));
    assert!(t.is_suppressed("link_down", node(0x30), Some(9)));
    assert!(!t.is_suppressed("no_sm", None, None));
    for bad in ["", "@0x20", "X@leaf", "X@0x20/300"] {
        assert!(bad.parse::<Suppress>().is_err(), "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
        let (t, problems) = Thresholds::parse(&bytes, Origin::Named, is_counter);
        let lines = bytes.split(|b| *b == b'\n').count();
        proptest::prop_assert!(problems.len() <= lines);
        proptest::prop_assert!(t.rules.len() <= Thresholds::default().rules.len() + lines);
    }
}

#[test]
fn bit_error_rates_are_written_as_such() {
    let (t, problems) = parse("RawBER=2e-6\nEffectiveBER=1.5e-13/1h:critical\n");
    assert_eq!(problems, []);
    let minutes = Over::Rate(600_000_000_000);
    let hour = Over::Rate(3_600_000_000_000);
    let (percent, problems) = parse("RawBER=50%\nRawBER=200%/1h:critical\n");
    assert_eq!(problems, []);
    assert_eq!(
        rules_of(&percent, "RawBER"),
        [
            (50, Over::Trust(600_000_000_000), Severity::Warning),
            (200, Over::Trust(3_600_000_000_000), Severity::Critical),
        ]
    );
    // In 1e18 bits.
    assert_eq!(
        rules_of(&t, "RawBER"),
        [(2_000_000_000_000, minutes, Severity::Warning)]
    );
    assert_eq!(
        rules_of(&t, "EffectiveBER"),
        [(150_000, hour, Severity::Critical)]
    );
    for bad in [
        "RawBER=1",
        "RawBER=-1e-5",
        "RawBER=NaN",
        "RawBER=10^-5",
        "RawBER=1001%/h",
        "EffectiveBER=5%/h",
        "SymbolErrorCounter=1e-5",
    ] {
        let (_, problems) = parse(bad);
        assert_eq!(problems.len(), 1, "{bad}");
    }
}
