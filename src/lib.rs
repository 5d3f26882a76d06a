//! fabtop: htop for an InfiniBand fabric.
//!
//! # The house
//!
//! MADs come from a port, the engine turns them into one stream of events, and everything else
//! reads that stream:
//!
//! ```text
//! kernel umad ─┐                              ┌─> record ──> FILE.pcapng
//! ibsim       ─┼─ MadPort ─> engine ─ Batch ──┤
//! simulator   ─┘               ^              └─> Model::apply ─> tui, report
//!                          Command <─ live console only
//! recording FILE ──────────────── Batch ───────┘
//! ```
//!
//! | room | is | must never |
//! |--|--|--|
//! | `umad` (a package of its own) | the kernel's user_mad interface; the one place with `unsafe` | know MAD contents |
//! | [`mad`] | wire codec: headers, attributes, RMPP, notices | do I/O, panic on any input |
//! | [`port`] | `MadPort`, addresses, agents, timestamps; the adapter to `umad` | decode an attribute |
//! | [`fabric`] | GUIDs, widths and speeds, directed routes, `Topology` | read a clock or a file |
//! | [`event`], [`command`] | the vocabulary between the rooms | do anything |
//! | [`sim`] | a simulated fabric behind `MadPort`; the ibsim client | be reachable unless asked for by name |
//! | [`engine`] | the core, a state machine without I/O, and its drivers | draw, or block on a slow consumer |
//! | [`model`] | the fold over events, and views of it | do I/O, read a clock |
//! | [`record`] | pcapng writer and reader | lose what it was given without saying so |
//! | [`watch`] | Unix socket: the recording stream, fanned out; viewers | accept anything from a viewer but a hello |
//! | [`report`] | one-shot text and JSON | hold state of its own |
//! | [`tui`] | terminal guard, loop, keys, panes | touch a port, compute what the model should |
//! | [`cli`] | arguments, settings, exit codes | contain logic |
//!
//! Imports run one way, in the order of this table; a test holds them to it.

pub mod cli;
pub mod command;
pub mod config;
pub mod engine;
pub mod event;
pub mod fabric;
pub mod mad;
pub mod model;
pub mod port;
pub mod record;
pub mod report;
pub mod sim;
pub mod tui;
pub mod watch;
