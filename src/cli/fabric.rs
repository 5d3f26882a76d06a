//! Opening what a command names: a port, a name map, the engine's configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::names::NAME_MAPS;
use super::{Failure, complain};
use crate::config::{Common, KeyText, SimTime};
use crate::engine;
use crate::event::Settings;
use crate::fabric::names::NameMap;
use crate::fabric::thresholds::{Origin, Thresholds};
use crate::model::alerts;
use crate::port::{MadPort, PortError, UmadPort};
use crate::sim::ibsim::IbsimPort;
use crate::sim::{self, SimOptions, SimPort};

/// Where infiniband-diags has its thresholds.
const THRESHOLDS: &str = "/etc/infiniband-diags/error_thresholds";

/// Opens the port that the options name.
pub fn open(common: &Common) -> Result<Box<dyn MadPort>, Failure> {
    if common.sim_time == SimTime::Fast && common.sim.is_none() {
        return Err(Failure::Usage(
            "--sim-time fast needs --sim: only simulated time can run faster".into(),
        ));
    }
    if let Some(file) = &common.sim {
        return simulator(common, file.as_deref());
    }
    if let Some(node) = &common.ibsim {
        return IbsimPort::attach(node.as_deref(), common.ibsim_sm)
            .map(|port| Box::new(port) as Box<dyn MadPort>)
            .map_err(failure);
    }
    UmadPort::open(common.ca.as_deref(), common.port)
        .map(|port| Box::new(port) as Box<dyn MadPort>)
        .map_err(failure)
}

fn failure(error: PortError) -> Failure {
    match error {
        PortError::Mistake(text) => Failure::Usage(text),
        other => Failure::Trouble(other.to_string()),
    }
}

/// Lines of a file that are complained of one by one.
const COMPLAINTS: usize = 10;

/// Says what is wrong with the first lines of a file, and how many more there are; what is right
/// is used.
fn complain_of<'p>(path: &Path, problems: impl ExactSizeIterator<Item = (usize, &'p str)>) {
    let more = problems.len().saturating_sub(COMPLAINTS);
    for (line, what) in problems.take(COMPLAINTS) {
        complain(&format!("{}:{line}: {what}", path.display()));
    }
    if more > 0 {
        complain(&format!(
            "{}: {more} more lines make no sense: is this the right file?",
            path.display()
        ));
    }
}

fn simulator(common: &Common, file: Option<&Path>) -> Result<Box<dyn MadPort>, Failure> {
    let mut options = SimOptions {
        seed: common.seed,
        ..SimOptions::default()
    };
    let fabric = match file {
        None => sim::default_fabric(),
        Some(path) => {
            let text = fs::read(path).map_err(|error| {
                Failure::Usage(format!(
                    "cannot read the topology file {}: {error}; name an ibsim or ibnetdiscover \
                     topology, or give --sim without a file",
                    path.display()
                ))
            })?;
            let text = String::from_utf8_lossy(&text);
            let (mut fabric, mut problems) = sim::netfile::parse(&text);
            if let Some(name) = path.file_name() {
                fabric.name = crate::fabric::names::clean(name.as_encoded_bytes());
            }
            problems.extend(sim::netfile::scenario(&text, &fabric, &mut options));
            problems.sort_by_key(|p| p.line);
            complain_of(path, problems.iter().map(|p| (p.line, p.why.as_str())));
            if fabric.nodes.is_empty() {
                return Err(Failure::Usage(format!(
                    "{} holds no node: name an ibsim or ibnetdiscover topology file",
                    path.display()
                )));
            }
            fabric
        }
    };
    SimPort::new(fabric, options)
        .map(|port| Box::new(port) as Box<dyn MadPort>)
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// The settings, with the name map and the thresholds read.
pub fn settings(common: &Common) -> Result<Settings, Failure> {
    let mut settings = common.settings().map_err(Failure::Usage)?;
    settings.thresholds = thresholds(common)?;
    read_names(common, &mut settings)?;
    Ok(settings)
}

/// The thresholds: of the file that is named, else of the default one, else the program's own.
fn thresholds(common: &Common) -> Result<Thresholds, Failure> {
    let named = common.thresholds.as_deref();
    let path = named.unwrap_or(Path::new(THRESHOLDS));
    let mut thresholds = match fs::read(path) {
        Ok(bytes) => {
            let origin = match named {
                Some(_) => Origin::Named,
                None => Origin::Found,
            };
            let (thresholds, problems) = Thresholds::parse(&bytes, origin, alerts::is_counter);
            complain_of(path, problems.iter().map(|p| (p.line, p.what.as_str())));
            thresholds
        }
        Err(error) if named.is_some() => {
            return Err(Failure::Usage(format!(
                "cannot read the thresholds file {}: {error}",
                path.display()
            )));
        }
        // A default file that cannot be read is no reason to show nothing.
        Err(_) => Thresholds::default(),
    };
    for suppress in &common.suppress {
        if !alerts::is_name(&suppress.name) {
            return Err(Failure::Usage(format!(
                "--suppress {}: there is no alert of this name; give a counter's name, * or one \
                 of {}",
                suppress.name,
                alerts::NAMES.join(", ")
            )));
        }
    }
    thresholds.suppress.clone_from(&common.suppress);
    Ok(thresholds)
}

fn read_names(common: &Common, settings: &mut Settings) -> Result<(), Failure> {
    let named = common.node_name_map.clone();
    let found = NAME_MAPS.iter().map(PathBuf::from).find(|p| p.exists());
    let Some(path) = named.clone().or(found) else {
        return Ok(());
    };
    match fs::read(&path) {
        Ok(bytes) => {
            let (map, problems) = NameMap::parse(&bytes);
            complain_of(&path, problems.iter().map(|p| (p.line, p.what.as_str())));
            settings.names = map.names;
        }
        Err(error) if named.is_some() => {
            return Err(Failure::Usage(format!(
                "cannot read the node name map {}: {error}",
                path.display()
            )));
        }
        // A default file that cannot be read is no reason to show nothing.
        Err(_) => {}
    }
    Ok(())
}

/// The key that two options name: itself, or a file that holds it.
fn key(
    option: &str,
    given: Option<&KeyText>,
    file: Option<&PathBuf>,
) -> Result<Option<engine::Key>, Failure> {
    let Some(path) = file else {
        let key = given.map(KeyText::key);
        return key
            .transpose()
            .map_err(|why| Failure::Usage(format!("--{option}: {why}")));
    };
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the key of --{option}-file, {}: {error}",
            path.display()
        ))
    })?;
    crate::config::key(text.lines().next().unwrap_or_default())
        .map(Some)
        .map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))
}

/// What the engine is told at its start.
pub fn config(common: &Common, settings: Settings) -> Result<engine::Config, Failure> {
    let m_key = key("m-key", common.m_key.as_ref(), common.m_key_file.as_ref())?;
    let sm_key = key(
        "sm-key",
        common.sm_key.as_ref(),
        common.sm_key_file.as_ref(),
    )?;
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    // Virtual time has no relation to the wall's: the same seed must give the same session.
    let (wall, tid_seed) = if common.sim_time == SimTime::Fast {
        (SIMULATED_EPOCH, 1)
    } else {
        (
            i64::try_from(since_epoch.as_nanos()).unwrap_or(0),
            since_epoch.subsec_nanos() ^ std::process::id().rotate_left(16),
        )
    };
    Ok(engine::Config {
        settings,
        m_key,
        sm_key,
        subscribe: !common.no_subscribe,
        host: fs::read_to_string("/proc/sys/kernel/hostname")
            .map(|name| name.trim().to_owned())
            .unwrap_or_default(),
        wall,
        tid_seed,
        answer_sminfo: common.ibsim_sm,
        ..engine::Config::default()
    })
}

/// 2026-01-01T00:00:00Z, at which sessions in virtual time open.
const SIMULATED_EPOCH: i64 = 1_767_225_600_000_000_000;
