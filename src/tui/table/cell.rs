//! What a column draws a row with: text, numbers, bars and sparklines in one cell.

use ratatui::buffer::Buffer;
#[cfg(test)]
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::text::{put, width};
use crate::tui::theme::{Look, Role};

/// One cell of a table while it is drawn.
pub struct Cell<'b> {
    pub(super) buf: &'b mut Buffer,
    pub(super) x: u16,
    pub(super) y: u16,
    /// Columns it has.
    pub width: u16,
    pub(super) right: bool,
    /// How to draw.
    pub look: &'b Look,
    /// Samples that a sparkline spans.
    pub window: usize,
    /// The row is selected: keep the background.
    pub(super) base: Style,
}

impl<'b> Cell<'b> {
    /// A cell outside a table.
    #[cfg(test)]
    pub fn at(buf: &'b mut Buffer, area: Rect, look: &'b Look) -> Cell<'b> {
        Cell {
            buf,
            x: area.x,
            y: area.y,
            width: area.width,
            right: false,
            look,
            window: 0,
            base: Style::new(),
        }
    }

    /// The part of this cell from column `offset` on, left-aligned.
    pub fn from(&mut self, offset: u16) -> Cell<'_> {
        let offset = offset.min(self.width);
        Cell {
            buf: self.buf,
            x: self.x + offset,
            y: self.y,
            width: self.width - offset,
            right: false,
            look: self.look,
            window: self.window,
            base: self.base,
        }
    }

    fn style(&self, role: Role) -> Style {
        self.look.style(role).patch(self.base)
    }

    /// Text, cut if it does not fit.
    pub fn text(&mut self, text: &str, role: Role) {
        self.spans(&[(text, role)]);
    }

    /// Several pieces of text.
    pub fn spans(&mut self, spans: &[(&str, Role)]) {
        let total: u16 = spans
            .iter()
            .map(|(t, _)| width(t, self.look))
            .fold(0, u16::saturating_add);
        let mut x = self.x;
        if self.right {
            x += self.width.saturating_sub(total);
        }
        let end = self.x + self.width;
        for (text, role) in spans {
            let style = self.style(*role);
            x += put(self.buf, (x, self.y), end - x, text, style, self.look);
        }
    }

    /// A number: never cut, `###` if it does not fit.
    pub fn number(&mut self, (text, role): (String, Role)) {
        if width(&text, self.look) > self.width {
            self.text(&"#".repeat(usize::from(self.width)), role);
        } else {
            self.text(&text, role);
        }
    }

    /// A bar of `share` (0–1) over `room` columns from `offset` on.
    pub fn bar(&mut self, offset: u16, room: u16, share: f64, role: Role) {
        let glyphs = self.look.glyphs;
        let eighths = (share.clamp(0.0, 1.0) * f64::from(room) * 8.0).round() as u32;
        // What is not nothing shows.
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        for i in 0..room.min(self.width.saturating_sub(offset)) {
            let part = eighths.saturating_sub(u32::from(i) * 8).min(8) as usize;
            let (symbol, role) = match part.checked_sub(1).and_then(|p| glyphs.bar.get(p)) {
                Some(&" ") | None => (glyphs.track, Role::Track),
                Some(full) => (*full, role),
            };
            let style = self.style(role);
            if let Some(cell) = self.buf.cell_mut((self.x + offset + i, self.y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }

    /// A sparkline of values 0–1, the newest at the right; NaN leaves a gap.
    pub fn spark(&mut self, values: &[f32], role: Role) {
        let glyphs = self.look.glyphs;
        let shown = values.len().min(usize::from(self.width));
        let style = self.style(role);
        let start = self.x + self.width - u16::try_from(shown).unwrap_or(self.width);
        for (x, value) in (start..).zip(values.iter().skip(values.len() - shown)) {
            if value.is_nan() {
                continue;
            }
            let level = (value.clamp(0.0, 1.0) * 7.0).round() as usize;
            if let (Some(cell), Some(symbol)) =
                (self.buf.cell_mut((x, self.y)), glyphs.spark.get(level))
            {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
}
