//! Which of the options that any command accepts one has a use for: the others are left out of
//! its help, and refused.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use super::Failure;
use crate::config::Cli;

/// What is shared by several commands, by the headings of the help.
const SHARED: [&str; 4] = ["Fabric", "Recording", "Watching", "Screen"];

/// The shared options that a command has a use for: headings and single options.
fn useful(command: &str) -> &'static [&'static str] {
    match command {
        "report" | "record" | "serve" => &["Fabric", "Recording", "Watching"],
        "watch" | "replay" => &["Screen"],
        "anonymize" => &["force"],
        _ => &[],
    }
}

/// Why it has no use for the others.
fn nature(command: &str, heading: &str) -> &'static str {
    match (command, heading) {
        ("report" | "record" | "serve" | "stream" | "anonymize", "Screen") => "has no screen",
        _ => "talks to no fabric",
    }
}

/// A shared option that `command` has no use for.
fn is_useless(command: &str, arg: &clap::Arg) -> bool {
    let shared = arg.get_help_heading().filter(|h| SHARED.contains(h));
    shared.is_some_and(|heading| {
        let useful = useful(command);
        !useful.contains(&heading) && !useful.contains(&arg.get_id().as_str())
    })
}

/// The command line's grammar; no help lists what is of no use.
fn grammar() -> Command {
    let mut grammar = Cli::command();
    grammar.build();
    let names: Vec<String> = grammar
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    for name in names {
        grammar = grammar.mut_subcommand(&name, |command| {
            command.mut_args(|arg| {
                let hide = arg.is_hide_set() || is_useless(&name, &arg);
                arg.hide(hide)
            })
        });
    }
    grammar
}

/// Reads the command line.
pub fn parse(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<(Cli, Option<Failure>), clap::Error> {
    let mut grammar = grammar();
    let matches = grammar.try_get_matches_from_mut(arguments)?;
    let refused = refused(&grammar, &matches);
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut grammar))?;
    Ok((cli, refused))
}

/// Says which option was given that the command cannot honour.
fn refused(grammar: &Command, matches: &ArgMatches) -> Option<Failure> {
    let (name, given) = matches.subcommand()?;
    let command = grammar.find_subcommand(name)?;
    let of_recording = name == "report" && given.contains_id("from");
    let useless = |arg: &&clap::Arg| {
        let shared = arg.get_help_heading().is_some_and(|h| SHARED.contains(&h));
        given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
            && (is_useless(name, arg) || of_recording && shared)
    };
    let arg = command.get_arguments().find(useless)?;
    let option = arg.get_long()?;
    let why = match of_recording {
        true if matches!(option, "thresholds" | "suppress") => {
            return Some(Failure::Usage(format!(
                "a recording is judged by the thresholds of its session: --{option} has no use \
                 with --from"
            )));
        }
        true => "`fabtop report --from` reads a recording".to_owned(),
        false if option == "socket" && matches!(name, "watch" | "stream") => {
            return Some(Failure::Usage(format!(
                "`fabtop {name}` takes the socket as its argument: `fabtop {name} PATH`, without \
                 --socket"
            )));
        }
        false => {
            let nature = nature(name, arg.get_help_heading().unwrap_or_default());
            format!("`fabtop {name}` {nature}")
        }
    };
    Some(Failure::Usage(format!("{why}: --{option} has no use here")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<String> {
        let words = line.split(' ').map(std::ffi::OsString::from);
        match parse(words).expect(line).1 {
            Some(Failure::Usage(text)) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn what_a_command_cannot_honour_is_refused_wherever_it_stands() {
        for line in [
            "fabtop watch --sim",
            "fabtop --sim watch",
            "fabtop --interval 1s stream",
            "fabtop anonymize a b --append",
            "fabtop replay x --m-key 1",
            "fabtop record x --fps 2",
            "fabtop report ports --from x --interval 1s",
            "fabtop report ports --from x --palette mono",
        ] {
            let text = told(line).expect(line);
            assert!(text.contains("has no use here"), "{line}: {text}");
        }
        for line in ["fabtop watch --socket x", "fabtop stream --socket x"] {
            let text = told(line).expect(line);
            assert!(text.contains("takes the socket as its argument"), "{text}");
        }
        for line in [
            "fabtop --sim --fps 2",
            "fabtop replay x --fps 2 --palette mono",
            "fabtop --fps 2 watch",
            "fabtop anonymize a b --force",
            "fabtop report ports --sim --record x --socket",
            "fabtop report ports --from x --at 5%",
        ] {
            assert_eq!(told(line), None, "{line}");
        }
    }

    #[test]
    fn the_help_of_a_command_lists_what_it_honours() {
        let help = |line: &str| {
            let words = line.split(' ').map(std::ffi::OsString::from);
            parse(words).map(|_| ()).expect_err(line).to_string()
        };
        let watch = help("fabtop watch -h");
        assert!(
            watch.contains("--palette") && !watch.contains("--sim"),
            "{watch}"
        );
        let anonymize = help("fabtop anonymize --help");
        assert!(anonymize.contains("--force") && !anonymize.contains("--append"));
        let report = help("fabtop report -h");
        assert!(report.contains("--sim") && !report.contains("--fps"));
        assert!(help("fabtop -h").contains("--fps"));
    }
}
