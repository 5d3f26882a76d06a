//! Settings: what the command line says, checked and turned into what the rooms take.
//!
//! This room must never open a port or start anything.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::Key;
use crate::event::{Budget, Settings};
use crate::fabric::thresholds::{Suppress, Thresholds};
use crate::record::replay::{SeekTo, Speed};

/// htop for an InfiniBand fabric.
///
/// Without a command: the live console. Every port, counter, notice and timeout of the subnet
/// that this host's port belongs to, read by MADs through the kernel's umad device. fabtop only
/// reads; the one thing that it sets is the SA's subscription for notices.
#[derive(Debug, Parser)]
#[command(
    name = "fabtop",
    version,
    subcommand_precedence_over_arg = true,
    after_help = "Exit codes: 0 done, 1 trouble with the fabric or device, 2 a mistake in the \
                  command, 128+n ended by signal n."
)]
pub struct Cli {
    /// What to do; the console if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub common: Common,

    #[command(flatten)]
    pub screen: Screen,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Collect for a while, print, and end: the same model as the console's, as text or JSON
    Report(ReportArgs),
    /// Record a session without a screen, until it is ended
    Record(RecordArgs),
    /// Collect without a screen, for those who watch
    Serve(ServeArgs),
    /// Show the session of a collector or console on this host, read-only
    Watch(WatchArgs),
    /// Copy a collector's session to standard output, for a viewer on another host
    Stream(StreamArgs),
    /// Show a recording in the console
    Replay(ReplayArgs),
    /// Copy a recording without what tells whose fabric it is
    Anonymize(AnonymizeArgs),
}

/// What `record` writes and when it ends.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The recording: pcapng, compressed if it ends in .zst; - for standard output
    pub file: PathBuf,

    /// Record for this long [default: until a signal ends it]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub time: Option<Duration>,

    /// Stop at this size (500M, 2G), or go on in another file with --rotate
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<u64>,

    /// At --max-size, go on in another file, and keep the newest N
    #[arg(long, value_name = "N", requires = "max_size", value_parser = clap::value_parser!(u32).range(1..=9999))]
    pub rotate: Option<u32>,
}

/// How long `serve` collects.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Collect for this long [default: until a signal ends it]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub time: Option<Duration>,
}

/// What `watch` shows.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The collector's socket [default: that of your own collector, else the host's]
    #[arg(value_name = "SOCKET")]
    pub path: Option<PathBuf>,

    /// For forced commands of sshd: never suspend, so that nobody gets a shell, and write no file
    #[arg(long)]
    pub restricted: bool,
}

/// What `stream` copies.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// The collector's socket [default: that of your own collector, else the host's]
    #[arg(value_name = "SOCKET")]
    pub path: Option<PathBuf>,
}

/// What `replay` shows.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Recordings, or captures of an InfiniBand port; - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Begin here: 40%, 1h30m after the beginning, -5m before the end, or a date and time in
    /// UTC (2026-11-29T22:13:57Z)
    #[arg(long, value_name = "TIME|PERCENT", allow_hyphen_values = true)]
    pub at: Option<SeekTo>,

    /// Play no further than here
    #[arg(long, value_name = "TIME|PERCENT", allow_hyphen_values = true)]
    pub until: Option<SeekTo>,

    /// Times real time: 0.1 to 1000, or max
    #[arg(long, value_name = "X", default_value = "1")]
    pub speed: Speed,

    /// Begin paused
    #[arg(long)]
    pub paused: bool,

    /// Pass over stretches in which nothing happens
    #[arg(long)]
    pub skip_idle: bool,

    /// Show what comes as it comes: a stream on standard input, or a file that still grows
    #[arg(long, conflicts_with_all = ["at", "until", "speed", "paused", "skip_idle"])]
    pub follow: bool,
}

/// What `anonymize` reads and writes.
#[derive(Debug, Args)]
pub struct AnonymizeArgs {
    /// The recording
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// The copy; compressed if it ends in .zst
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
}

/// What `report` prints and when it ends.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// What to print
    #[arg(value_enum)]
    pub kind: ReportKind,

    /// What `path`, `routes`, `uses` and `sa` are about; a node is a name, 0xGUID or LID, with
    /// PORT in brackets behind it where it has several
    #[arg(value_name = "OF")]
    pub of: Vec<String>,

    /// Of `path`: which of the LIDs that TO has, counted from its base LID [default: 0]
    #[arg(long, value_name = "N")]
    pub path_bits: Option<u8>,

    /// Collect for this long, then print [default: until the first full discovery and counter
    /// sweep are done; for `path`, until the ports on it were read twice and their load is known]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub time: Option<Duration>,

    /// Stop as soon as the first full discovery is done (and the first sweep of what KIND shows);
    /// `path` then says nothing of load
    #[arg(long, conflicts_with = "time")]
    pub once: bool,

    /// Print JSON, with the classic counter names
    #[arg(long)]
    pub json: bool,

    /// End with code 1 if an alert of severity warning or critical is open, and with 3 instead of
    /// 1 if there is trouble: for scripts that look at `alerts`
    #[arg(long)]
    pub exit_code: bool,

    /// How `topology` is printed
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TopologyFormat>,

    /// Read a recording instead of a fabric
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "once", "record"])]
    pub from: Option<PathBuf>,

    /// The recording as of then: 40%, 1h30m after the beginning, -5m before the end, or a date
    /// and time in UTC
    #[arg(
        long,
        value_name = "TIME|PERCENT",
        requires = "from",
        allow_hyphen_values = true
    )]
    pub at: Option<SeekTo>,
}

/// The reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportKind {
    /// Every port: state, width, speed, peer, counters; AGE is that of the older of the two
    /// readings, state (each --sweep-interval) and counters (each --interval); JSON has both
    Ports,
    /// Every node: GUID, kind, LID, ports, description
    Nodes,
    /// Every destination: sent, answered, timed out, latency
    Timeouts,
    /// What is missing and why: nodes out of reach, silent or protected, and since when
    Missing,
    /// Nodes and links as a topology file
    Topology,
    /// Each loop's last sweep: requests, failures, how long it took
    Sweeps,
    /// Every subnet manager: priority, state, activity count
    Sms,
    /// The SA's tables and where they differ from discovery; with a TABLE, its records
    Sa,
    /// The path FROM TO by the forwarding tables, hop by hop, with each hop's load: it waits for
    /// two counter readings, which --once spares
    Path,
    /// The forwarding table of a SWITCH: LID, port, destination
    Routes,
    /// The destinations that are reached by a port: NODE PORT
    Uses,
    /// Every alert: what needs a look, since when, and whom to suspect
    Alerts,
    /// The event log: what happened, oldest first
    Events,
}

/// Formats of `report topology`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopologyFormat {
    /// The text that ibnetdiscover prints and other tools parse
    Ibnetdiscover,
}

/// How the simulator's time runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SimTime {
    /// As fast as the clock on the wall
    #[default]
    Real,
    /// Virtual: as fast as the machine can compute it
    Fast,
}

/// Options of every command that talks to a fabric.
#[derive(Debug, Args)]
#[command(next_help_heading = "Fabric")]
pub struct Common {
    /// Channel adapter to use, such as mlx5_0 [default: the first with an active InfiniBand port]
    #[arg(short = 'C', long, global = true, value_name = "NAME")]
    pub ca: Option<String>,

    /// Port of the adapter [default: the first active InfiniBand port]
    #[arg(short = 'P', long, global = true, value_name = "N")]
    pub port: Option<u8>,

    /// Use the built-in simulator, with the fabric of FILE (ibsim or ibnetdiscover topology)
    /// or a small one of its own
    #[arg(long, global = true, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["ca", "port", "ibsim"])]
    pub sim: Option<Option<PathBuf>>,

    /// The simulator's seed: the same seed gives the same session
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// How the simulator's time runs
    #[arg(long, global = true, value_enum, default_value_t, value_name = "HOW")]
    pub sim_time: SimTime,

    /// Attach to an ibsim server, at NODE or its first node (IBSIM_SOCKNAME names the server)
    #[arg(long, global = true, value_name = "NODE", num_args = 0..=1, conflicts_with_all = ["ca", "port"])]
    pub ibsim: Option<Option<String>>,

    /// Take the IsSM role of that ibsim port, so that the SA's reports arrive
    #[arg(long, global = true, requires = "ibsim")]
    pub ibsim_sm: bool,

    /// Read every port's counters this often
    #[arg(long, global = true, value_name = "TIME", default_value = "5s", value_parser = interval)]
    pub interval: Duration,

    /// Read every port's state this often
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub sweep_interval: Duration,

    /// Discover the whole subnet anew this often
    #[arg(long, global = true, value_name = "TIME", default_value = "10min", value_parser = interval)]
    pub discovery_interval: Duration,

    /// Wait this long for an answer after the last attempt. The attempts before it follow each
    /// other by measured latency, each after twice as long as the last: SMPs after 5ms at least
    /// (the third after 400ms unless MADs are being lost), GMPs after 50ms
    #[arg(long, global = true, value_name = "TIME", default_value = "1s", value_parser = timeout)]
    pub timeout: Duration,

    /// Ask this often before a request counts as failed; an answer to any of them counts
    #[arg(long, global = true, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub attempts: u8,

    /// SMPs in flight at most (one a node). Those that take longer than usual, lost or to a dead
    /// node as a rule, do not count: if nodes are slow and not dead, up to 8 times as many more
    /// can be on their way, until the first late answers show that
    #[arg(long, global = true, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub smp_in_flight: u16,

    /// SMPs a second at most, in any 100 ms; 0 = no limit
    #[arg(long, global = true, value_name = "N", default_value_t = 5_000)]
    pub smp_rate: u32,

    /// GMPs in flight at most (two a node); those that are overdue count as with SMPs
    #[arg(long, global = true, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub gmp_in_flight: u16,

    /// GMPs a second at most, in any 100 ms; 0 = no limit
    #[arg(long, global = true, value_name = "N", default_value_t = 20_000)]
    pub gmp_rate: u32,

    /// Do not subscribe for notices at the SA: then nothing at all is set
    #[arg(long, global = true)]
    pub no_subscribe: bool,

    /// M_Key for SMPs, as a number: nodes that protect themselves with it answer. It is in clear
    /// in each SMP, to every node, as the subnet manager's is (asking without it first would
    /// count a violation at each protected node). Never shown or recorded, but every user of this host can see a command line: see --m-key-file
    #[arg(long, global = true, value_name = "KEY", value_parser = KeyText::take)]
    pub m_key: Option<KeyText>,

    /// Read the M_Key from the first line of FILE
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "m_key")]
    pub m_key_file: Option<PathBuf>,

    /// SM_Key for the SA's tables, as a number: an SA shows some records only to those who know
    /// it (opensm: P_Key tables; its default is 1). Some do not answer who gives a wrong one, and
    /// are then asked without. Never shown or recorded, but every user of this host can see a command line: see --sm-key-file
    #[arg(long, global = true, value_name = "KEY", value_parser = KeyText::take)]
    pub sm_key: Option<KeyText>,

    /// Read the SM_Key from the first line of FILE
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "sm_key")]
    pub sm_key_file: Option<PathBuf>,

    /// Names by GUID [default: /etc/rdma/ib-node-name-map or
    /// /etc/opensm/ib-node-name-map, where there is one]
    #[arg(long, global = true, value_name = "FILE", env = "NODE_NAME_MAP")]
    pub node_name_map: Option<PathBuf>,

    /// Limits of error counters: Name=value, value/h, value/15min, each with an optional
    /// :severity [default: /etc/infiniband-diags/error_thresholds, where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,

    /// Raise no alerts of these names: a counter's or an alert's, or * for all; NAME@GUID and
    /// NAME@GUID/PORT only there
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',')]
    pub suppress: Vec<Suppress>,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub sharing: Sharing,
}

/// Options of whatever writes a recording.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct Recording {
    /// Record the session to FILE (pcapng; Wireshark opens it)
    #[arg(long, global = true, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Overwrite the recording if it exists
    #[arg(long, global = true)]
    pub force: bool,

    /// Continue the recording if it exists; a torn end is cut off first
    #[arg(long, global = true, conflicts_with = "force")]
    pub append: bool,

    /// Keep M_Keys, SM_Keys and their kin in the recording instead of blanking them
    #[arg(long, global = true)]
    pub keep_keys: bool,

    /// Replace GUIDs, LIDs and descriptions in the recording: it replays, and does not tell
    /// whose fabric it is
    #[arg(long, global = true, conflicts_with = "keep_keys")]
    pub anonymize: bool,
}

/// Options of whatever can be watched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Watching")]
pub struct Sharing {
    /// Let others watch the session on this Unix socket [default: fabtop/fabtop.sock in
    /// $XDG_RUNTIME_DIR, else /run/fabtop/fabtop.sock]
    #[arg(long, global = true, value_name = "PATH", num_args = 0..=1)]
    pub socket: Option<Option<PathBuf>>,

    /// Let this group watch, too; else only your own user can
    #[arg(long, global = true, value_name = "GROUP")]
    pub socket_group: Option<String>,
}

/// Options of the console.
#[derive(Debug, Args)]
#[command(next_help_heading = "Screen")]
pub struct Screen {
    /// Colours [default: what the terminal can do; NO_COLOR is honoured]
    #[arg(long, global = true, value_enum, value_name = "PALETTE")]
    pub palette: Option<PaletteArg>,

    /// Redraw for new data at most this often a second
    #[arg(long, global = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub fps: u8,
}

/// Palettes, from the fewest colours to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaletteArg {
    /// No colours: bold, reverse and underline only
    Mono,
    /// The 16 of every terminal
    #[value(name = "16")]
    Ansi16,
    /// 256
    #[value(name = "256")]
    Ansi256,
    /// 24 bit
    Truecolor,
}

/// A size in bytes, with k, M or G for powers of 1,000.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches('B') {
        t if t.ends_with(['k', 'K']) => (t.trim_end_matches(['k', 'K']), 1_000),
        t if t.ends_with('M') => (t.trim_end_matches('M'), 1_000_000),
        t if t.ends_with('G') => (t.trim_end_matches('G'), 1_000_000_000),
        t => (t, 1),
    };
    let size = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    match size {
        Some(size) if size >= 100_000 => Ok(size),
        Some(_) => Err("must be at least 100k".into()),
        None => Err("give a size such as 500M or 2G".into()),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if time < Duration::from_millis(100) {
        return Err("must be at least 100ms, to be gentle on the fabric".into());
    }
    if time > Duration::from_secs(7 * 24 * 3600) {
        return Err("must be at most 7days".into());
    }
    Ok(time)
}

fn span(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if time.is_zero() {
        return Err("nothing is seen in no time: give 1s or more".into());
    }
    Ok(time)
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&time) {
        return Err("must be between 10ms and 1min".into());
    }
    Ok(time)
}

/// What was given as a key, right or wrong: no message repeats it.
#[derive(Clone)]
pub struct KeyText(String);

impl KeyText {
    fn take(text: &str) -> Result<KeyText, std::convert::Infallible> {
        Ok(KeyText(text.to_owned()))
    }

    /// The key.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn key(&self) -> Result<Key, String> {
        key(&self.0)
    }
}

impl std::fmt::Debug for KeyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyText(..)")
    }
}

/// A key, in C's notation: 0x hexadecimal, 0 octal, else decimal.
///
/// # Errors
/// A sentence that does not repeat the text: it may be a key with a slip in it.
pub fn key(text: &str) -> Result<Key, String> {
    if text.trim().is_empty() {
        return Err("there is no key in it: give a number such as 0x1234".into());
    }
    crate::fabric::names::base0(text.trim())
        .and_then(Key::new)
        .ok_or_else(|| "not a key: give a number such as 0x1234, not 0".into())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Common {
    /// The settings that the engine and the fold use.
    ///
    /// # Errors
    /// A sentence for the user if the budgets do not fit together.
    pub fn settings(&self) -> Result<Settings, String> {
        if self.smp_in_flight + self.gmp_in_flight > 256 {
            return Err(format!(
                "--smp-in-flight {} and --gmp-in-flight {} are over 256 together, which is the \
                 most that may be in flight; lower one of them",
                self.smp_in_flight, self.gmp_in_flight
            ));
        }
        Ok(Settings {
            interval_ns: nanos(self.interval),
            sweep_interval_ns: nanos(self.sweep_interval),
            discovery_interval_ns: nanos(self.discovery_interval),
            smp: Budget {
                in_flight: self.smp_in_flight,
                per_node: 1,
                rate: self.smp_rate,
            },
            gmp: Budget {
                in_flight: self.gmp_in_flight,
                per_node: 2,
                rate: self.gmp_rate,
            },
            timeout_ms: u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX),
            attempts: self.attempts,
            names: std::collections::BTreeMap::new(),
            thresholds: Thresholds::default(),
            // The key itself is the engine's, which says whether there is one.
            sm_key: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_house() {
        // Intervals and budgets that the manual promises: 5 s, 30 s, 10 min; 8 SMPs in flight
        // at 5,000/s, 64 GMPs at 20,000/s; 1 s and 3 attempts as the classic tools have.
        let cli = Cli::try_parse_from(["fabtop"]).unwrap();
        assert_eq!(cli.common.settings().unwrap(), Settings::default());
    }

    #[test]
    fn sim_takes_a_file_or_none_and_leaves_commands_alone() {
        let cli = Cli::try_parse_from(["fabtop", "--sim", "report", "ports"]).unwrap();
        assert!(matches!(cli.common.sim, Some(None)));
        assert!(cli.command.is_some());
        let cli = Cli::try_parse_from(["fabtop", "report", "nodes", "--sim", "a.net"]).unwrap();
        assert_eq!(cli.common.sim, Some(Some("a.net".into())));
        assert!(Cli::try_parse_from(["fabtop", "--sim", "--ibsim"]).is_err());
    }

    #[test]
    fn too_much_in_flight_is_refused_with_both_options_named() {
        let cli = Cli::try_parse_from(["fabtop", "--smp-in-flight", "200"]).unwrap();
        let error = cli.common.settings().unwrap_err();
        assert!(error.contains("--smp-in-flight 200") && error.contains("--gmp-in-flight 64"));
    }

    #[test]
    fn sizes_are_in_powers_of_1000() {
        for (text, size) in [
            ("100k", 100_000),
            ("500M", 500_000_000),
            ("2GB", 2_000_000_000),
            ("123456", 123_456),
        ] {
            assert_eq!(bytes(text), Ok(size));
        }
        for text in ["", "5k", "M", "1.5G", "-1", "99999999999999999999G"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_takes_a_path_or_none() {
        let cli = Cli::try_parse_from(["fabtop", "--sim", "--socket", "serve"]).unwrap();
        assert!(matches!(cli.common.sharing.socket, Some(None)));
        let cli = Cli::try_parse_from(["fabtop", "serve", "--socket", "/x"]).unwrap();
        assert_eq!(cli.common.sharing.socket, Some(Some("/x".into())));
    }

    #[test]
    fn an_interval_that_would_hammer_the_fabric_is_refused() {
        assert!(Cli::try_parse_from(["fabtop", "--interval", "1ms"]).is_err());
        assert!(Cli::try_parse_from(["fabtop", "--interval", "banana"]).is_err());
    }
}
