//! Plain aligned columns.

use unicode_width::UnicodeWidthStr;

/// A table that is written once all rows are known.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings; those that begin with `>` are aligned to the right.
    pub fn new(headings: &[&str]) -> Table {
        let (right, names) = headings
            .iter()
            .map(|h| (h.starts_with('>'), h.trim_start_matches('>').to_owned()))
            .unzip();
        Table {
            rows: vec![names],
            right,
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes all rows, two spaces between columns, nothing at a line's end.
    pub fn write(&self, out: &mut String) {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        for row in &self.rows {
            let start = out.len();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                if out.len() > start {
                    out.push_str("  ");
                }
                let pad = width - cell.width();
                if *right {
                    out.extend(std::iter::repeat_n(' ', pad));
                }
                out.push_str(cell);
                if !*right {
                    out.extend(std::iter::repeat_n(' ', pad));
                }
            }
            out.truncate(start + out.get(start..).map_or(0, |l| l.trim_end().len()));
            out.push('\n');
        }
    }
}
