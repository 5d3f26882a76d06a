//! Field report 6: "(FDR10)" in the text of a link broke a parser. An FDR10 link is found, decoded
//! and printed, in every form that fabtop prints, and what it prints of a topology reads back.

#![allow(clippy::unwrap_used)] // a test may fail by panicking

use fabtop::engine::{Config, Virtual};
use fabtop::fabric::LinkSpeed;
use fabtop::model::Model;
use fabtop::port::Stamp;
use fabtop::report::{self, Format};
use fabtop::sim::{SimOptions, SimPort, netfile};
use fabtop::tui::{App, Clock, Depth, Kind, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Two ConnectX-3 below a SwitchX; the second link runs at plain QDR.
const NET: &str = r#"
vendid=0x2c9
devid=0xc738
sysimgguid=0x2c90300000020
switchguid=0x2c90300000020(2c90300000020)
Switch	36 "S-0002c90300000020"		# "leaf" base port 0 lid 3 lmc 0
[1]	"H-0002c90300000010"[1](2c90300000011) 		# "a mlx4_0" lid 1 4xFDR10
[2]	"H-0002c90300000018"[1](2c90300000019) 		# "b mlx4_0" lid 2 4xQDR

vendid=0x2c9
devid=0x1003
sysimgguid=0x2c90300000010
caguid=0x2c90300000010
Ca	1 "H-0002c90300000010"		# "a mlx4_0"
[1](2c90300000011) 	"S-0002c90300000020"[1]		# lid 1 lmc 0 "leaf" lid 3 4xFDR10

vendid=0x2c9
devid=0x1003
sysimgguid=0x2c90300000018
caguid=0x2c90300000018
Ca	1 "H-0002c90300000018"		# "b mlx4_0"
[1](2c90300000019) 	"S-0002c90300000020"[2]		# lid 2 lmc 0 "leaf" lid 3 4xQDR
"#;

#[test]
fn field_report_06_an_fdr10_link_is_decoded_and_printed() {
    let (fabric, problems) = netfile::parse(NET);
    assert!(problems.is_empty(), "{problems:?}");
    let port = SimPort::new(fabric, SimOptions::healthy()).unwrap();
    let mut engine = Virtual::new(Box::new(port), Config::default());
    let mut model = Model::new();
    engine.run_until(Stamp::from_secs(12), &mut |batch| {
        batch.events.iter().for_each(|event| model.apply(event));
    });
    let now = model.last();
    let speeds: Vec<_> = model
        .ports(now)
        .iter()
        .filter(|r| r.peer.is_some())
        .map(|r| (r.name.to_owned(), r.key.port, r.speed.unwrap()))
        .collect();
    let row = |name: &str, port, speed| (name.to_owned(), port, speed);
    assert_eq!(
        speeds,
        [
            row("a mlx4_0", 1, LinkSpeed::Fdr10),
            row("b mlx4_0", 1, LinkSpeed::Qdr),
            row("leaf", 1, LinkSpeed::Fdr10),
            row("leaf", 2, LinkSpeed::Qdr),
        ]
    );
    // 10 Gb/s of data a lane, for four lanes.
    let json: serde_json::Value =
        serde_json::from_str(&report::ports(&model, now, Format::Json)).unwrap();
    let first = &json["ports"].as_array().unwrap()[0];
    assert_eq!(
        (&first["speed"], &first["width"]),
        (&"FDR10".into(), &"4x".into())
    );
    assert_eq!(first["rate_gbit_per_s"], 40.0);
    let text = report::ports(&model, now, Format::Text);
    assert_eq!(text.matches("4x FDR10").count(), 2, "{text}");
    // The topology reads back as the same fabric.
    let printed = report::topology(&model, now);
    assert_eq!(printed.matches(" 4xFDR10\n").count(), 2, "{printed}");
    let (again, problems) = netfile::parse(&printed);
    assert!(problems.is_empty(), "{problems:?}");
    let fast = |n: &fabtop::sim::NodeSpec| {
        let at = |p: &&fabtop::sim::PortSpec| p.speed == LinkSpeed::Fdr10;
        n.ports.iter().filter(at).count()
    };
    assert_eq!(again.nodes.iter().map(fast).sum::<usize>(), 2);
    // And the console shows it.
    let mut app = App::new(Kind::Live, Look::new(Depth::Mono), Clock::utc());
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 30));
    app.draw(&model, now, &mut buf);
    let screen: String = buf.content().iter().map(|c| c.symbol()).collect();
    assert_eq!(screen.matches("4x FDR10").count(), 2);
}
