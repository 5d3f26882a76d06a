use super::*;

/// A link between a switch's port and an adapter's, with these counts at each end.
fn link(near: &[(Counter, u64)], far: &[(Counter, u64)]) -> (End, End) {
    let end = |name: &str, kind, counts: &[(Counter, u64)]| {
        let mut end = End {
            name: name.to_owned(),
            kind,
            ..End::default()
        };
        for (c, n) in counts {
            end.counts[*c as usize] = *n;
        }
        end
    };
    (
        end("leaf[2]", NodeKind::Switch, near),
        end("node7[1]", NodeKind::Ca, far),
    )
}

fn sentences(near: &End, far: &End) -> Vec<String> {
    diagnose(near, far).iter().map(Finding::sentence).collect()
}

fn of(near: &[(Counter, u64)], far: &[(Counter, u64)]) -> Vec<String> {
    let (near, far) = link(near, far);
    sentences(&near, &far)
}

use Counter::*;

#[test]
fn a_clean_link_is_not_talked_about() {
    assert!(of(&[], &[]).is_empty());
    // Traffic is no fault, nor is a switch's own multicast.
    assert!(of(&[(XmitData, 1 << 40), (RcvSwitchRelayErrors, 500)], &[]).is_empty());
}

#[test]
fn symbol_errors_at_one_end_blame_the_way_there_and_not_the_one_who_counts() {
    assert_eq!(
        of(&[(SymbolError, 40), (RcvErrors, 3)], &[]),
        [
            "Suspect the cable or node7[1]'s transmitter, then leaf[2]'s receiver: leaf[2] counts \
             40 SymbolErrorCounter, 3 PortRcvErrors, node7[1] counts none."
        ]
    );
    // The other way round the other one is blamed, whichever end one looks from.
    let (near, far) = link(&[], &[(SymbolError, 40)]);
    for found in [diagnose(&near, &far), diagnose(&far, &near)] {
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].suspect,
            "suspect the cable or leaf[2]'s transmitter, then node7[1]'s receiver"
        );
    }
}

#[test]
fn blocks_beyond_repair_are_damage_on_the_way_like_symbol_errors() {
    let (mut near, far) = link(&[], &[]);
    near.uncorrectable = 7;
    let found = sentences(&near, &far);
    assert_eq!(
        found,
        [
            "Suspect the cable or node7[1]'s transmitter, then leaf[2]'s receiver: leaf[2] counts \
             7 PortFECUncorrectableBlockCtr, node7[1] counts none."
        ]
    );
}

#[test]
fn errors_at_both_ends_blame_what_they_have_in_common() {
    let found = of(
        &[(SymbolError, 40)],
        &[(SymbolError, 25), (LinkErrorRecovery, 1)],
    );
    assert!(found[0].starts_with("Suspect the cable or its connectors: both"));
    // A thousand here and three there are one direction.
    let found = of(&[(SymbolError, 1_000)], &[(SymbolError, 3)]);
    assert!(found[0].starts_with("Suspect the cable or node7[1]'s transmitter"));
}

#[test]
fn packets_that_came_marked_as_bad_do_not_blame_this_link() {
    // Leaf[1] receives damage and passes it on, marked, through leaf[2] to node7: symbol errors
    // there, remote physical errors here.
    let (mut near, far) = link(&[], &[(RcvRemotePhysicalErrors, 80)]);
    near.damaged = vec!["leaf[1]".to_owned()];
    assert_eq!(
        sentences(&near, &far),
        [
            "Not this link: suspect the one at leaf[1], where packets arrive damaged: node7[1] \
             received 80 packets that were already marked as bad (PortRcvRemotePhysicalErrors)."
        ]
    );
    near.damaged.clear();
    assert!(sentences(&near, &far)[0].starts_with("Not this link: suspect one on the way to leaf"));
    // An adapter passes nothing on: what it marks as bad is its own.
    let found = of(&[(RcvRemotePhysicalErrors, 80)], &[]);
    assert!(found[0].starts_with("Suspect node7[1] itself"), "{found:?}");
}

#[test]
fn symbol_errors_here_and_remote_errors_there_are_two_stories() {
    let (near, far) = link(&[(SymbolError, 40)], &[(RcvRemotePhysicalErrors, 9)]);
    let found = diagnose(&near, &far);
    assert_eq!(found.len(), 2);
    // What arrives damaged at leaf[2] was sent by node7; what node7 gets marked came through
    // leaf from elsewhere. Neither blames leaf[2]'s transmitter.
    assert!(found[0].suspect.contains("node7[1]'s transmitter"));
    assert!(found[1].suspect.starts_with("not this link"));
    assert!(
        !found
            .iter()
            .any(|f| f.suspect.contains("leaf[2]'s transmitter"))
    );
}

#[test]
fn discards_blame_what_is_behind_the_other_end() {
    let found = of(&[(XmitDiscards, 500)], &[]);
    assert!(found[0].starts_with("Suspect node7[1]: it takes packets too slowly"));
    let (near, mut far) = link(&[], &[(XmitDiscards, 500)]);
    far.waiting.clear();
    let found = sentences(&near, &far);
    assert!(
        found[0].starts_with("Suspect congestion behind leaf[2]"),
        "{found:?}"
    );
    // While the link was down there was no way out: no congestion.
    let found = of(&[(XmitDiscards, 500), (LinkDowned, 2)], &[]);
    assert!(
        found
            .iter()
            .any(|f| f.contains("going down: packets had no way out"))
    );
    assert!(!found.iter().any(|f| f.contains("too slowly")));
}

#[test]
fn waiting_blames_the_receiver_only_while_the_link_has_room() {
    let (mut near, far) = link(&[], &[]);
    near.wait = Some(0.62);
    near.sends = Some(0.11);
    assert_eq!(
        sentences(&near, &far),
        [
            "Suspect node7[1]: it takes packets too slowly: no credits come from there: leaf[2] \
             waits 62 % of the time (PortXmitWait) while it sends at 11 % of the link's rate."
        ]
    );
    near.sends = Some(0.95);
    assert!(sentences(&near, &far)[0].starts_with("No fault: the link is full"));
    near.wait = Some(0.05);
    assert!(sentences(&near, &far).is_empty());
    // Not known is not idle.
    (near.wait, near.sends) = (Some(0.9), None);
    assert!(sentences(&near, &far).is_empty());
    // From the adapter's side: the switch has no room because its own ports wait.
    let (mut near, mut far) = link(&[], &[]);
    (far.wait, far.sends) = (Some(0.5), Some(0.2));
    near.waiting = vec!["leaf[9]".to_owned()];
    assert!(
        sentences(&near, &far)[0]
            .starts_with("Suspect congestion behind leaf[2]: leaf[9] cannot send either")
    );
}

#[test]
fn constraints_blame_partitions_and_never_the_cable() {
    let found = of(&[(RcvConstraintErrors, 5), (XmitConstraintErrors, 6)], &[]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|f| f.contains("partition configuration")));
    assert!(!found.iter().any(|f| f.contains("cable")));
    assert!(found[0].contains("node7[1] sends with a P_Key"));
}

#[test]
fn overruns_blame_the_sender_and_dropped_smps_the_askers() {
    let found = of(&[(ExcessiveBufferOverrun, 1)], &[]);
    assert!(found[0].starts_with("Suspect node7[1]: it sends without credits"));
    let found = of(&[(Vl15Dropped, 9)], &[]);
    assert!(found[0].starts_with("Suspect too much management traffic for leaf[2]"));
}

#[test]
fn a_link_that_goes_down_cleanly_is_a_restart_before_it_is_a_cable() {
    let found = of(&[(LinkDowned, 3)], &[]);
    assert!(
        found[0].starts_with("Suspect a restart of node7[1]"),
        "{found:?}"
    );
    let found = of(&[(LinkDowned, 3), (SymbolError, 70)], &[]);
    assert!(found[1].starts_with("Suspect the cable or its connectors first"));
}

/// What an operator meets, and what is said first: a switch's port leaf[2] here, an adapter's
/// node7[1] there. (LinkDownedCounter and discards are counted in the same hours.)
#[test]
fn what_operators_meet_is_told_in_the_words_they_need() {
    type Counts<'a> = &'a [(Counter, u64)];
    let cases: &[(&str, Counts<'_>, Counts<'_>, &[&str])] = &[
        (
            "a dirty connector on the way from the host",
            &[
                (SymbolError, 4_521),
                (LinkErrorRecovery, 2),
                (RcvErrors, 17),
            ],
            &[],
            &[
                "Suspect the cable or node7[1]'s transmitter, then leaf[2]'s receiver: leaf[2] \
               counts 4521 SymbolErrorCounter, 2 LinkErrorRecoveryCounter, 17 PortRcvErrors, \
               node7[1] counts none.",
            ],
        ),
        (
            "a broken cable that trains again and again",
            &[(SymbolError, 60_001), (LinkDowned, 4), (XmitDiscards, 310)],
            &[(SymbolError, 41_330), (RcvErrors, 12), (LinkDowned, 4)],
            &[
                "Suspect the cable or its connectors: both directions are damaged: leaf[2] counts \
                 60001 SymbolErrorCounter, node7[1] counts 41330 SymbolErrorCounter, 12 \
                 PortRcvErrors.",
                "Suspect the cable or its connectors first: the link went down 4 times \
                 (LinkDownedCounter) and packets were damaged.",
                "Suspect the link's going down: packets had no way out then: leaf[2] discarded \
                 310 packets (PortXmitDiscards).",
            ],
        ),
        (
            "a host that was rebooted twice",
            &[(LinkDowned, 2)],
            &[(LinkDowned, 1)],
            &[
                "Suspect a restart of node7[1], or a cable that was pulled or is loose: the link \
               went down 2 times (LinkDownedCounter) without a damaged packet.",
            ],
        ),
        (
            "damage upstream that this host only receives",
            &[],
            &[(RcvRemotePhysicalErrors, 1_204)],
            &[
                "Not this link: suspect one on the way to leaf[2]: node7[1] received 1204 packets \
               that were already marked as bad (PortRcvRemotePhysicalErrors).",
            ],
        ),
        (
            "damage here, and elsewhere upstream",
            &[(SymbolError, 88)],
            &[(RcvRemotePhysicalErrors, 3)],
            &[
                "Suspect the cable or node7[1]'s transmitter, then leaf[2]'s receiver: leaf[2] \
                 counts 88 SymbolErrorCounter, node7[1] counts none.",
                "Not this link: suspect one on the way to leaf[2]: node7[1] received 3 packets \
                 that were already marked as bad (PortRcvRemotePhysicalErrors).",
            ],
        ),
        (
            "a host that does not drain its queue",
            &[(XmitDiscards, 5_210)],
            &[],
            &[
                "Suspect node7[1]: it takes packets too slowly: leaf[2] discarded 5210 packets \
               (PortXmitDiscards).",
            ],
        ),
        (
            "a job with the wrong partition key",
            &[(RcvConstraintErrors, 96)],
            &[],
            &[
                "Suspect the partition configuration: node7[1] sends with a P_Key that this port \
               does not admit: leaf[2] refused 96 packets (PortRcvConstraintErrors).",
            ],
        ),
        (
            "an adapter that builds packets wrongly",
            &[(RcvErrors, 14)],
            &[],
            &[
                "Suspect node7[1]'s transmitter or the cable, or packets that node7[1] builds \
               wrongly: leaf[2] counts 14 PortRcvErrors, node7[1] counts none.",
            ],
        ),
        (
            "a receiver that gives up while nothing is in error: credits, not damage",
            &[(ExcessiveBufferOverrun, 3)],
            &[],
            &[
                "Suspect node7[1]: it sends without credits; compare both ends' OperVLs and MTU: \
               leaf[2] counts 3 ExcessiveBufferOverrunErrors.",
            ],
        ),
        (
            "a thousand errors this way and two that way",
            &[(SymbolError, 2)],
            &[(SymbolError, 1_000), (LocalLinkIntegrity, 1)],
            &[
                "Suspect the cable or leaf[2]'s transmitter, then node7[1]'s receiver: node7[1] \
               counts 1000 SymbolErrorCounter, 1 LocalLinkIntegrityErrors, leaf[2] counts 2 \
               SymbolErrorCounter.",
            ],
        ),
    ];
    for (what, near, far, words) in cases {
        assert_eq!(of(near, far), *words, "{what}");
    }
}
