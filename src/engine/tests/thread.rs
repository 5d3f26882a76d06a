//! The driver on a thread. Nothing here depends on how long something takes.

use crossbeam_channel::bounded;

use super::fabric::{star, tree};
use super::*;
use crate::command::Command;
use crate::engine::{Sinks, start};

#[test]
fn a_session_on_a_thread_discovers_counts_and_ends_when_asked() {
    let (tx, rx) = bounded(8);
    let sinks = Sinks {
        model: Some(tx),
        encoder: None,
    };
    let handle = start(tree(2, 3, 3).port(), Config::default(), sinks).unwrap();
    let mut events: Vec<Event> = Vec::new();
    for batch in &rx {
        events.extend(batch.events.iter().cloned());
        let counted = events
            .iter()
            .any(|e| matches!(e.what, What::SweepEnded(s) if s.kind == SweepKind::Counters));
        if counted {
            assert!(handle.commander.send(Command::Mark("enough".into())));
            assert!(handle.commander.quit());
            break;
        }
    }
    events.extend(rx.iter().flat_map(|b| b.events.clone()));
    handle.join().unwrap();
    assert!(events.iter().enumerate().all(|(i, e)| e.seq == i as u64));
    assert!(
        events
            .iter()
            .any(|e| matches!(&e.what, What::Mark { text } if &**text == "enough"))
    );
    assert!(matches!(events.last().unwrap().what, What::Closed { .. }));
}

#[test]
fn a_panic_in_the_thread_closes_the_sinks_and_is_told_with_its_cause() {
    let (tx, rx) = bounded(64);
    let fabric = star(2);
    fabric.get().script = Some(Box::new(|_, _| panic!("the port broke")));
    let sinks = Sinks {
        model: Some(tx),
        encoder: None,
    };
    let handle = start(fabric.port(), Config::default(), sinks).unwrap();
    // Ends although nobody asked for it.
    for _ in &rx {}
    let cause = handle.join().unwrap_err();
    assert!(cause.contains("the port broke"), "{cause}");
}

#[test]
fn an_engine_that_nobody_listens_to_ends() {
    let (tx, rx) = bounded(64);
    drop(rx);
    let sinks = Sinks {
        model: Some(tx),
        encoder: None,
    };
    let handle = start(star(2).port(), Config::default(), sinks).unwrap();
    handle.join().unwrap();
}
