//! A buffer as a picture: scalable, deterministic, with bars and sparklines as rectangles so
//! that they look the same in every font.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

const W: f64 = 8.4;
const H: f64 = 18.0;
const PAD: f64 = 12.0;
const FG: &str = "#d3dce6";
const BG: &str = "#10151c";

fn hex(color: Color, default: &str) -> String {
    match color {
        Color::Reset => default.to_owned(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => panic!("pictures are drawn in 24 bits, not {other:?}"),
    }
}

/// Foreground and background, reversed where the cell says so.
fn colours(cell: &Cell) -> (String, String) {
    let (fg, bg) = (hex(cell.fg, FG), hex(cell.bg, BG));
    if cell.modifier.contains(Modifier::REVERSED) {
        (bg, fg)
    } else {
        (fg, bg)
    }
}

/// A block element as the part of the cell that it fills: x, y, width, height, 0 to 1.
fn block(symbol: &str) -> Option<(f64, f64, f64, f64)> {
    let c = symbol.chars().next()?;
    match c {
        '█' => Some((0.0, 0.0, 1.0, 1.0)),
        '▁'..='▇' => {
            let part = f64::from(c as u32 - '▁' as u32 + 1) / 8.0;
            Some((0.0, 1.0 - part, 1.0, part))
        }
        '▉'..='▏' => {
            let part = f64::from('▏' as u32 - c as u32 + 1) / 8.0;
            Some((0.0, 0.0, part, 1.0))
        }
        _ => None,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

pub fn svg(buf: &Buffer, title: &str) -> String {
    let (cols, rows) = (buf.area.width, buf.area.height);
    let (w, h) = (
        f64::from(cols) * W + 2.0 * PAD,
        f64::from(rows) * H + 2.0 * PAD,
    );
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.1} {h:.1}" width="{w:.0}" font-family="'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" shape-rendering="crispEdges" xml:space="preserve">
<title>{}</title>
<rect width="{w:.1}" height="{h:.1}" rx="8" fill="{BG}"/>"#,
        escape(title)
    );
    for y in 0..rows {
        let top = PAD + f64::from(y) * H;
        let left = |x: u16| PAD + f64::from(x) * W;
        let mut x = 0;
        while x < cols {
            let cell = &buf[(x, y)];
            let bg = colours(cell).1;
            let mut end = x + 1;
            while end < cols && colours(&buf[(end, y)]).1 == bg {
                end += 1;
            }
            if bg != BG {
                let _ = writeln!(
                    out,
                    r#"<rect x="{:.1}" y="{top:.1}" width="{:.1}" height="{H}" fill="{bg}"/>"#,
                    left(x),
                    f64::from(end - x) * W
                );
            }
            x = end;
        }
        let mut x = 0;
        while x < cols {
            let cell = &buf[(x, y)];
            let fg = colours(cell).0;
            if let Some((bx, by, bw, bh)) = block(cell.symbol()) {
                let _ = writeln!(
                    out,
                    r#"<rect x="{:.2}" y="{:.2}" width="{:.2}" height="{:.2}" fill="{fg}"/>"#,
                    left(x) + bx * W,
                    top + 2.0 + by * (H - 4.0),
                    bw * W,
                    bh * (H - 4.0),
                );
                x += 1;
                continue;
            }
            if cell.symbol() == " " {
                x += 1;
                continue;
            }
            let mut text = String::new();
            let mut end = x;
            while end < cols {
                let next = &buf[(end, y)];
                // Two blanks end a piece: positions stay exact whatever the font.
                let gap =
                    next.symbol() == " " && (end + 1 >= cols || buf[(end + 1, y)].symbol() == " ");
                if gap
                    || colours(next).0 != fg
                    || next.modifier != cell.modifier
                    || block(next.symbol()).is_some()
                {
                    break;
                }
                text.push_str(next.symbol());
                end += 1;
            }
            let mut style = String::new();
            if cell.modifier.contains(Modifier::BOLD) {
                style.push_str(r#" font-weight="bold""#);
            }
            if cell.modifier.contains(Modifier::ITALIC) {
                style.push_str(r#" font-style="italic""#);
            }
            let _ = writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" textLength="{:.1}" fill="{fg}"{style}>{}</text>"#,
                left(x),
                top + 13.5,
                f64::from(end - x) * W,
                escape(&text)
            );
            x = end;
        }
    }
    out.push_str("</svg>\n");
    out
}
