//! Frames to the terminal: only the cells that changed, in one write, as one update.
//!
//! A thread of its own writes, so that a terminal that takes nothing (a stopped scroll, a
//! stalled line) holds up neither the fold nor the keys nor the way out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Sender, bounded};
use crossterm::QueueableCommand;
use crossterm::clipboard::CopyToClipboard;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::guard;
use super::input::Control;

/// Synchronized output: the terminal shows all of the update or nothing of it.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// The terminal as a sink of frames.
#[derive(Debug)]
pub struct Output {
    frames: Sender<Vec<u8>>,
    busy: Arc<AtomicBool>,
    shown: Buffer,
    clear: bool,
    first: bool,
}

impl Output {
    /// Starts the writer; it tells `alarm` if the terminal is gone.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(alarm: Sender<Control>) -> io::Result<Output> {
        let (frames, queue) = bounded::<Vec<u8>>(1);
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        thread::Builder::new()
            .name("screen".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                for frame in queue {
                    if guard::write(&frame).is_err() {
                        let _ = alarm.send(Control::HungUp);
                        return;
                    }
                    done.store(false, Ordering::SeqCst);
                }
            })?;
        Ok(Output {
            frames,
            busy,
            shown: Buffer::empty(Rect::ZERO),
            clear: true,
            first: true,
        })
    }

    /// True while the last frame is still on its way.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Forgets what the terminal shows: the next frame is drawn anew.
    pub fn forget(&mut self) {
        self.clear = true;
    }

    /// What the terminal shows.
    pub const fn shown(&self) -> &Buffer {
        &self.shown
    }

    /// Shows `frame`. Writes nothing if no cell changed.
    pub fn show(&mut self, frame: Buffer) -> io::Result<()> {
        if frame.area != self.shown.area || self.clear {
            self.shown = Buffer::empty(frame.area);
            self.clear = true;
        }
        let bytes = encode(&self.shown, &frame, self.clear)?;
        self.clear = false;
        self.shown = frame;
        if std::mem::take(&mut self.first) {
            // The terminal has room for the first frame; no need to wait for the writer to be
            // scheduled.
            return guard::write(&bytes);
        }
        self.send(bytes);
        Ok(())
    }

    /// Puts `text` on the terminal's clipboard (OSC 52), if the terminal lets it.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut bytes = Vec::new();
        bytes.queue(CopyToClipboard::to_clipboard_from(text))?;
        self.send(bytes);
        Ok(())
    }

    fn send(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.busy.store(true, Ordering::SeqCst);
            // Closed only after the terminal was reported as gone.
            let _ = self.frames.send(bytes);
        }
    }
}

/// The bytes that turn `from` into `to`; none if they are equal.
fn encode(from: &Buffer, to: &Buffer, clear: bool) -> io::Result<Vec<u8>> {
    let mut changes = from.diff_iter(to).peekable();
    if changes.peek().is_none() && !clear {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend_from_slice(BEGIN);
    if clear {
        bytes.extend_from_slice(CLEAR);
    }
    CrosstermBackend::new(&mut bytes).draw(changes)?;
    bytes.extend_from_slice(END);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::{Color, Style};

    fn buffer(text: &str, style: Style) -> Buffer {
        let mut buf = Buffer::empty(Rect::new(0, 0, 10, 2));
        buf.set_string(0, 0, text, style);
        buf
    }

    #[test]
    fn nothing_changed_writes_nothing() {
        let a = buffer("abc", Style::new().fg(Color::Red));
        assert_eq!(encode(&a, &a.clone(), false).unwrap(), b"");
    }

    #[test]
    fn a_frame_is_one_synchronized_update_that_a_terminal_shows_as_meant() {
        let a = buffer("abc", Style::new());
        let b = buffer("abX", Style::new().fg(Color::Red));
        let bytes = encode(&a, &b, true).unwrap();
        assert!(bytes.starts_with(b"\x1b[?2026h") && bytes.ends_with(b"\x1b[?2026l"));
        // No question to the terminal: no "ESC [ 6 n", no other report request.
        assert!(!bytes.windows(2).any(|w| w == b"6n"));
        let mut term = vt100::Parser::new(2, 10, 0);
        term.process(&encode(&Buffer::empty(a.area), &a, true).unwrap());
        term.process(&encode(&a, &b, false).unwrap());
        assert_eq!(term.screen().contents(), "abX");
        let cell = term.screen().cell(0, 2).unwrap();
        assert_eq!(cell.fgcolor(), vt100::Color::Idx(1));
    }
}
