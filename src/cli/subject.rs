//! What a report is about, where that must be found in the fabric first: a path, a switch, a
//! port, a table of the SA.

use super::Failure;
use crate::config::{ReportArgs, ReportKind};
use crate::event::Topic;
use crate::fabric::sa::SaTable;
use crate::fabric::{Lid, NodeKind, PortKey};
use crate::model::Model;
use crate::port::Stamp;
use crate::report::{self, Format};

/// A report's subject.
#[derive(Clone, Debug)]
pub struct Subject {
    kind: ReportKind,
    of: Vec<String>,
    path_bits: Option<u8>,
}

impl Subject {
    /// Reads the words behind the kind of report. `None` if it needs nothing from the fabric
    /// but its sweeps.
    pub fn of(args: &ReportArgs) -> Result<Option<Subject>, Failure> {
        let (name, least, most) = match args.kind {
            ReportKind::Path => ("path FROM TO", 2, 2),
            ReportKind::Routes => ("routes SWITCH", 1, 1),
            ReportKind::Uses => ("uses NODE PORT", 1, 2),
            ReportKind::Sa => ("sa [TABLE]", 0, 1),
            _ => ("", 0, 0),
        };
        let given = args.of.len();
        if given < least || given > most {
            return Err(Failure::Usage(if most == 0 {
                let word = args.of.first().map_or("", String::as_str);
                format!("this report takes no name: leave {word:?} out")
            } else {
                format!("say `fabtop report {name}`; a node is a name, 0xGUID or LID")
            }));
        }
        if args.path_bits.is_some() && args.kind != ReportKind::Path {
            return Err(Failure::Usage(
                "--path-bits belongs to `report path`: it chooses among a port's LIDs".into(),
            ));
        }
        let subject = Subject {
            kind: args.kind,
            of: args.of.clone(),
            path_bits: args.path_bits,
        };
        match args.kind {
            ReportKind::Sa => subject.table().map(|_| ())?,
            ReportKind::Path | ReportKind::Routes | ReportKind::Uses | ReportKind::Sms => {}
            _ => return Ok(None),
        }
        Ok(Some(subject))
    }

    /// It is about what the SM and SA say.
    pub fn asks_sa(&self) -> bool {
        matches!(self.kind, ReportKind::Sa | ReportKind::Sms)
    }

    fn word(&self, index: usize) -> &str {
        self.of.get(index).map_or("", String::as_str)
    }

    fn table(&self) -> Result<Option<SaTable>, Failure> {
        let Some(word) = self.of.first() else {
            return Ok(None);
        };
        SaTable::by_name(word).map(Some).ok_or_else(|| {
            let all: Vec<&str> = SaTable::ALL.iter().map(|t| t.word()).collect();
            Failure::Usage(format!(
                "the SA has no table {word:?}: name one of {}",
                all.join(", ")
            ))
        })
    }

    fn path(&self, model: &Model) -> Result<(PortKey, Lid), String> {
        let from = model.end_port(model.find(self.word(0))?)?;
        if self.path_bits.is_none() && model.is_unseen(self.word(1)) {
            return Ok((from, model.find_in_sa(self.word(1))?));
        }
        let place = model.find(self.word(1))?;
        let to = model.end_port(place)?;
        Ok((from, model.path_lid(place, to, self.path_bits)?))
    }

    fn switch(&self, model: &Model) -> Result<crate::fabric::NodeId, String> {
        let place = model.find(self.word(0))?;
        match model.topology().node(place.node).map(|n| n.kind) {
            Some(NodeKind::Switch) => Ok(place.node),
            _ => Err(format!(
                "{} is no switch: only a switch has a forwarding table",
                model.name(place.node)
            )),
        }
    }

    fn port(&self, model: &Model) -> Result<PortKey, String> {
        let place = model.find(self.word(0))?;
        let name = model.name(place.node);
        let number = match (self.of.get(1), place.port) {
            (Some(word), _) => word
                .parse::<u8>()
                .map_err(|_| format!("{word:?} is no port number"))?,
            (None, Some(port)) if place.lid.is_none() => port,
            _ => {
                return Err(format!(
                    "name a port of {name}: `report uses {name:?} PORT`"
                ));
            }
        };
        let key = place.node.port(number);
        match model.topology().port(key) {
            Some(_) => Ok(key),
            None => Err(format!("{name} has no port {number}")),
        }
    }

    /// The records by which the end of a path is found that discovery did not see.
    fn unseen(&self, model: &Model) -> Option<Topic> {
        let tables = vec![SaTable::Nodes, SaTable::Links];
        let wanted = self.kind == ReportKind::Path
            && model.is_unseen(self.word(1))
            && model.find_in_sa(self.word(1)).is_err();
        wanted.then_some(Topic::Sa { tables })
    }

    /// What must be read for it, in order.
    pub fn topics(&self, model: &Model) -> Result<Vec<Topic>, Failure> {
        Ok(match self.kind {
            ReportKind::Path => {
                let (from, lid) = self.path(model).map_err(Failure::Usage)?;
                vec![Topic::Path { from, lid }]
            }
            ReportKind::Routes => {
                let switch = self.switch(model).map_err(Failure::Usage)?;
                vec![Topic::Table { switch }]
            }
            ReportKind::Uses => {
                let switch = self.port(model).map_err(Failure::Usage)?.node;
                vec![Topic::Table { switch }]
            }
            ReportKind::Sms => {
                let tables = vec![SaTable::Sms];
                vec![Topic::Sms, Topic::Sa { tables }]
            }
            ReportKind::Sa => {
                let tables = match self.table()? {
                    Some(table) => vec![table],
                    None => [SaTable::Groups, SaTable::Services, SaTable::Subscriptions]
                        .into_iter()
                        .chain(SaTable::COMPARED)
                        .collect(),
                };
                vec![Topic::Sms, Topic::Sa { tables }]
            }
            _ => Vec::new(),
        })
    }

    /// The load of a path is known at every port by which it leaves a node. What is no path is
    /// loaded never.
    fn is_loaded(&self, model: &Model) -> bool {
        let ReportKind::Path = self.kind else {
            return false;
        };
        let Ok((from, lid)) = self.path(model) else {
            return false;
        };
        let path = model.path(from, lid, model.last());
        let mut ports = path.hops.iter().filter(|h| h.leaves.is_some());
        ports.all(|h| {
            h.out
                .as_ref()
                .is_some_and(|(_, t)| t.tx_bps.get().is_some())
        })
    }

    /// The report, and what is wrong with its subject if something is.
    pub fn report(
        &self,
        model: &Model,
        now: Stamp,
        format: Format,
    ) -> Result<(String, Option<String>), Failure> {
        Ok(match self.kind {
            ReportKind::Path => {
                let (from, lid) = self.path(model).map_err(Failure::Usage)?;
                let view = model.path(from, lid, now);
                let wrong = (!view.arrives).then_some(view.end);
                (report::path(model, now, from, lid, format), wrong)
            }
            ReportKind::Routes => {
                let switch = self.switch(model).map_err(Failure::Usage)?;
                let text = report::routes(model, now, switch, format);
                (text.unwrap_or_default(), None)
            }
            ReportKind::Uses => {
                let port = self.port(model).map_err(Failure::Usage)?;
                let text = report::uses(model, now, port, format);
                (text.unwrap_or_default(), None)
            }
            ReportKind::Sms => (report::sms(model, now, format), None),
            _ => (report::sa(model, now, self.table()?, format), None),
        })
    }
}

/// Has a subject's topics read, one after the other.
#[derive(Debug, Default)]
pub struct Readings {
    subject: Option<Subject>,
    /// What is still to be read; `None` before it is known.
    topics: Option<Vec<Topic>>,
    /// What only the SA knows was asked for.
    sought: bool,
    /// What is being read.
    now: Option<Topic>,
    /// The subject was not found.
    failure: Option<Failure>,
}

impl Readings {
    /// For a subject, if there is one.
    pub fn new(subject: Option<Subject>) -> Readings {
        Readings {
            subject,
            ..Readings::default()
        }
    }

    /// A reading ended.
    pub fn ended(&mut self, topic: &Topic) {
        if self.now.as_ref() == Some(topic) {
            self.now = None;
        }
    }

    /// The next thing to be read, once the fabric is discovered.
    pub fn next(&mut self, model: &Model) -> Option<Topic> {
        let subject = self.subject.as_ref()?;
        if self.now.is_some() || self.failure.is_some() {
            return None;
        }
        if self.topics.is_none() {
            if !std::mem::replace(&mut self.sought, true)
                && let Some(topic) = subject.unseen(model)
            {
                self.now = Some(topic.clone());
                return Some(topic);
            }
            match subject.topics(model) {
                Ok(topics) => self.topics = Some(topics),
                Err(failure) => {
                    self.failure = Some(failure);
                    return None;
                }
            }
        }
        let topics = self.topics.as_mut()?;
        if topics.is_empty() {
            return None;
        }
        let topic = topics.remove(0);
        self.now = Some(topic.clone());
        Some(topic)
    }

    /// Nothing is left to be read.
    pub fn are_done(&self) -> bool {
        let all = self.now.is_none() && self.topics.as_ref().is_some_and(Vec::is_empty);
        self.subject.is_none() || self.failure.is_some() || all
    }

    /// Counters have told all that the subject is asked for.
    pub fn are_loaded(&self, model: &Model) -> bool {
        self.subject.as_ref().is_some_and(|s| s.is_loaded(model))
    }

    /// Why nothing can be read.
    pub fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}
