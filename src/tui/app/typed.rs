//! What is typed in the last line: a filter, or a place in a recording.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Act, App};
use crate::record::replay::Command as Playing;
use crate::tui::facts::Facts;
use crate::tui::filter::Filter;
use crate::tui::told::{self, Told};

/// The most that is typed, in bytes: a book pasted by mistake must not be looked for in every
/// row of every frame.
const LONGEST: usize = 256;

/// Takes what fits.
fn type_in(line: &mut String, text: impl Iterator<Item = char>) {
    for c in text.filter(|c| !c.is_control()) {
        if line.len() + c.len_utf8() > LONGEST {
            return;
        }
        line.push(c);
    }
}

impl<F: Facts> App<F> {
    /// Pasted text: it can be a filter, but never commands.
    pub fn paste(&mut self, text: &str) {
        if let Some(goto) = &mut self.goto {
            type_in(goto, text.chars());
        } else if self.editing {
            type_in(&mut self.filter_text, text.chars());
            self.filter = Filter::parse(&self.filter_text);
        }
    }

    /// A key while a place in the recording is typed.
    pub(super) fn type_place(&mut self, event: &KeyEvent) -> Option<Act> {
        let text = self.goto.as_mut()?;
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Char('c') if ctrl => return Some(Act::Quit),
            KeyCode::Esc => self.goto = None,
            KeyCode::Backspace if text.is_empty() => self.goto = None,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char('u') if ctrl => text.clear(),
            KeyCode::Char(c) if !ctrl && !event.modifiers.contains(KeyModifiers::ALT) => {
                type_in(text, std::iter::once(c));
            }
            KeyCode::Enter => {
                let text = self.goto.take()?;
                let position = match &self.told {
                    Told::Replay(replay) => replay.position.as_ref(),
                    _ => None,
                };
                match told::place(&text, position, &self.clock) {
                    Ok(to) => return Some(Act::Play(Playing::Seek(to))),
                    Err(why) => self.say(why),
                }
            }
            _ => {}
        }
        None
    }

    /// A key while the filter is typed; false if it is none of its business.
    pub(super) fn edit(&mut self, event: &KeyEvent) -> bool {
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.clear_filter();
            }
            KeyCode::Backspace => {
                // Backspace over nothing leaves.
                self.editing = self.filter_text.pop().is_some();
            }
            KeyCode::Char('u') if ctrl => self.filter_text.clear(),
            KeyCode::Char('w') if ctrl => {
                let kept = self.filter_text.trim_end();
                let kept = kept.rfind(' ').map_or(0, |i| i + 1);
                self.filter_text.truncate(kept);
            }
            KeyCode::Char('h') if ctrl => {
                self.filter_text.pop();
            }
            KeyCode::Char(c) if !ctrl && !event.modifiers.contains(KeyModifiers::ALT) => {
                type_in(&mut self.filter_text, std::iter::once(c));
            }
            _ => return false,
        }
        self.filter = Filter::parse(&self.filter_text);
        true
    }

    pub(super) fn clear_filter(&mut self) {
        self.filter_text.clear();
        self.filter = Filter::default();
    }
}
