//! One line of a topology file.

use crate::fabric::{LinkSpeed, LinkWidth, NodeKind, widest};
use crate::mad::LinkWidths;

/// What a line says.
pub enum Line {
    /// Blank, a comment, or a setting that [`Sticky`] took.
    Nothing,
    /// `# Initiated from node … port …`: both GUIDs.
    Origin(u64, u64),
    /// `Switch 36 "S-…" …`
    Node(Header),
    /// `[1] "H-…"[1] …`
    Port(PortLine),
}

/// A node's first line.
#[derive(Clone)]
pub struct Header {
    pub kind: NodeKind,
    pub ports: u8,
    /// The name that port lines use.
    pub id: String,
    pub description: Option<String>,
    pub enhanced: bool,
    pub lid: u16,
}

/// A port's line.
#[derive(Clone)]
pub struct PortLine {
    pub number: u8,
    pub guid: Option<u64>,
    pub peer: String,
    pub peer_port: u8,
    pub peer_guid: Option<u64>,
    pub width: Option<LinkWidth>,
    pub speed: Option<LinkSpeed>,
    /// LID of this end, where a CA's line tells it, and LMC.
    pub lid: Option<u16>,
    pub lmc: u8,
    /// LID after the peer's name.
    pub peer_lid: Option<u16>,
}

/// Settings of lines like `devid=0x…`, which hold for nodes after them; GUIDs hold for the next
/// node only.
#[derive(Clone, Default)]
pub struct Sticky {
    pub vendor: Option<u32>,
    pub device: Option<u16>,
    pub system_guid: Option<u64>,
    pub guid: Option<u64>,
    /// The GUID in brackets of `switchguid=0x…(…)`.
    pub port_guid: Option<u64>,
    pub widths: Option<u8>,
    pub speed: Option<LinkSpeed>,
    pub m_key: Option<MKeySetting>,
}

/// What `# m_key …` says of the next node.
#[derive(Clone, Copy, Default)]
pub struct MKeySetting {
    pub m_key: u64,
    pub protect: u8,
    pub lease: u16,
}

impl Sticky {
    /// A node has taken its GUIDs.
    pub fn node_done(&mut self) {
        self.system_guid = None;
        self.guid = None;
        self.port_guid = None;
        self.m_key = None;
    }
}

impl Header {
    /// The GUID in an id of the form `S-…`, `H-…` or `R-…`.
    pub fn guid(&self) -> Option<u64> {
        let (kind, hex) = self.id.split_once('-')?;
        if !matches!(kind, "S" | "H" | "R") || hex.len() != 16 {
            return None;
        }
        u64::from_str_radix(hex, 16).ok()
    }
}

/// Reads a line; settings go to `sticky`.
pub fn read(raw: &str, sticky: &mut Sticky) -> Result<Line, String> {
    let text = raw.trim();
    if text.is_empty() {
        return Ok(Line::Nothing);
    }
    if let Some(comment) = text.strip_prefix('#') {
        m_key(comment, sticky);
        return Ok(origin(comment).unwrap_or(Line::Nothing));
    }
    if text.starts_with('[') {
        return port(text).map(Line::Port);
    }
    let word = text.split([' ', '\t', '=']).next().unwrap_or("");
    match word {
        "Switch" | "Hca" | "Ca" | "Rt" | "Router" | "switch" | "hca" | "ca" | "rt" => {
            header(word, text).map(Line::Node)
        }
        "include" => Err("include is not supported: give one whole file".into()),
        "do" => Err("commands to ibsim (do) are not run".into()),
        _ => match text.split_once('=') {
            Some((name, value)) => setting(name.trim(), value.trim(), sticky),
            None => Err("not understood".into()),
        },
    }
}

/// `Initiated from node 0002c903… port 0002c903…`
fn origin(comment: &str) -> Option<Line> {
    let rest = comment.trim().strip_prefix("Initiated from node ")?;
    let (node, port) = rest.split_once(" port ")?;
    Some(Line::Origin(hex(node.trim())?, hex(port.trim())?))
}

/// `m_key 0x1234 protect 2 lease 30`: a comment to others, since no topology file has a word for
/// it. It holds for the next node.
fn m_key(comment: &str, sticky: &mut Sticky) {
    let mut words = comment.split_whitespace();
    let mut key = MKeySetting::default();
    while let (Some(name), Some(value)) = (words.next(), words.next().and_then(number)) {
        match name {
            "m_key" => key.m_key = value,
            "protect" => key.protect = (value & 3) as u8,
            "lease" => key.lease = value.min(u64::from(u16::MAX)) as u16,
            _ => return,
        }
    }
    if key.m_key != 0 {
        sticky.m_key = Some(key);
    }
}

fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).ok()
}

/// A number as C's base 0 reads it, at the start of the text.
fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let end = digits
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(digits.len());
        return u64::from_str_radix(digits.get(..end)?, 16).ok();
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

fn setting(name: &str, value: &str, sticky: &mut Sticky) -> Result<Line, String> {
    let bad = || format!("{name}: not a number: {value:?}");
    let value_of = || number(value).ok_or_else(bad);
    match name {
        "vendid" => sticky.vendor = Some(value_of()? as u32 & 0xFF_FFFF),
        "devid" => sticky.device = Some(value_of()? as u16),
        "sysimgguid" => sticky.system_guid = Some(value_of()?),
        "switchguid" | "caguid" | "rtguid" => {
            sticky.guid = Some(value_of()?);
            sticky.port_guid = value
                .split_once('(')
                .and_then(|(_, rest)| hex(rest.split(')').next()?.trim()));
        }
        "width" => sticky.widths = Some(value_of()? as u8 & 0x1F),
        "speed" => sticky.speed = basic_speed(value_of()?).or(sticky.speed),
        "extspeed" => sticky.speed = ext_speed(value_of()?).or(sticky.speed),
        "module" => {}
        _ => return Err("not understood".into()),
    }
    Ok(Line::Nothing)
}

/// The fastest of a LinkSpeedEnabled mask.
fn basic_speed(mask: u64) -> Option<LinkSpeed> {
    match mask & 7 {
        4..=7 => Some(LinkSpeed::Qdr),
        2 | 3 => Some(LinkSpeed::Ddr),
        1 => Some(LinkSpeed::Sdr),
        _ => None,
    }
}

/// The fastest of a LinkSpeedExtEnabled mask.
fn ext_speed(mask: u64) -> Option<LinkSpeed> {
    match mask & 15 {
        8..=15 => Some(LinkSpeed::Ndr),
        4..=7 => Some(LinkSpeed::Hdr),
        2 | 3 => Some(LinkSpeed::Edr),
        1 => Some(LinkSpeed::Fdr),
        _ => None,
    }
}

/// `Switch\t36 "S-…"\t\t# "name" enhanced port 0 lid 4 lmc 0`
fn header(word: &str, text: &str) -> Result<Header, String> {
    let kind = match word {
        "Switch" | "switch" => NodeKind::Switch,
        "Hca" | "Ca" | "hca" | "ca" => NodeKind::Ca,
        _ => NodeKind::Router,
    };
    let rest = text.get(word.len()..).unwrap_or("").trim_start();
    let ports = number(rest)
        .and_then(|n| u8::try_from(n).ok())
        .filter(|n| (1..=254).contains(n))
        .ok_or("a node has 1 to 254 ports")?;
    let (id, rest) = quoted(rest).ok_or("a node needs an id in quotes")?;
    let mut header = Header {
        kind,
        ports,
        id: id.to_owned(),
        description: None,
        enhanced: false,
        lid: 0,
    };
    if let Some((_, comment)) = rest.split_once('#') {
        // A name may hold quotes and number signs: it ends at the line's last quote.
        let (name, after) = named(comment);
        header.description = name.map(str::to_owned);
        header.enhanced = after.trim_start().starts_with("enhanced");
        header.lid = after_word(after, "lid").unwrap_or(0);
    }
    Ok(header)
}

/// The text between the next two quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"')
}

/// The text between the first and the last quote, and what follows.
fn named(text: &str) -> (Option<&str>, &str) {
    match (text.find('"'), text.rfind('"')) {
        (Some(a), Some(b)) if a < b => (text.get(a + 1..b), text.get(b + 1..).unwrap_or("")),
        _ => (None, text),
    }
}

/// The number after a word, such as `lid 4`.
fn after_word(text: &str, word: &str) -> Option<u16> {
    let mut words = text.split_whitespace();
    words.find(|w| *w == word)?;
    number(words.next()?).and_then(|n| u16::try_from(n).ok())
}

/// `[…]` at the start: its content and the rest.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.split_once(']')
}

/// Skips `[ext 12]`, which stands after a port number inside a chassis.
fn skip_external(text: &str) -> &str {
    match bracketed(text) {
        Some((inner, rest)) if inner.starts_with("ext") => rest,
        _ => text,
    }
}

/// `(guid)` at the start, if there, and the rest.
fn guid(text: &str) -> (Option<u64>, &str) {
    match text
        .trim_start()
        .strip_prefix('(')
        .and_then(|t| t.split_once(')'))
    {
        Some((inner, rest)) => (hex(inner.trim()), rest),
        None => (None, text),
    }
}

/// `[1](guid) "peer"[2](guid) # … "name" lid 4 4xHDR`
fn port(text: &str) -> Result<PortLine, String> {
    let port_number = |inner: &str| {
        number(inner.trim())
            .and_then(|n| u8::try_from(n).ok())
            .ok_or_else(|| format!("not a port number: {inner:?}"))
    };
    let (inner, rest) = bracketed(text).ok_or("a bracket is missing")?;
    let own = port_number(inner)?;
    let (own_guid, rest) = guid(skip_external(rest));
    let (peer, rest) = quoted(rest).ok_or("the other end needs an id in quotes")?;
    let (inner, rest) =
        bracketed(rest.trim_start()).ok_or("the other end's port number is missing")?;
    let peer_port = port_number(inner)?;
    let (peer_guid, rest) = guid(skip_external(rest));
    let mut line = PortLine {
        number: own,
        guid: own_guid,
        peer: peer.to_owned(),
        peer_port,
        peer_guid,
        width: None,
        speed: None,
        lid: None,
        lmc: 0,
        peer_lid: None,
    };
    let (options, comment) = match rest.split_once('#') {
        Some((options, comment)) => (options, Some(comment)),
        None => (rest, None),
    };
    let mut tail = options;
    if let Some(comment) = comment {
        let (name, after) = named(comment);
        if name.is_some() {
            let before = comment.split('"').next().unwrap_or("");
            line.lid = after_word(before, "lid");
            line.lmc = after_word(before, "lmc").unwrap_or(0).min(7) as u8;
        }
        enabled_masks(options, &mut line);
        tail = after;
    } else {
        enabled_masks(options, &mut line);
    }
    line.peer_lid = after_word(tail, "lid");
    rate(tail, &mut line);
    Ok(line)
}

/// `w=`, `s=` and `e=` of ibsim: masks of what is enabled.
fn enabled_masks(text: &str, line: &mut PortLine) {
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            continue;
        };
        let Some(mask) = number(value) else { continue };
        match name {
            "w" => line.width = widest(LinkWidths(mask as u8 & 0x1F)).or(line.width),
            "s" => line.speed = basic_speed(mask).or(line.speed),
            "e" => line.speed = ext_speed(mask).or(line.speed),
            _ => {}
        }
    }
}

/// `4xHDR`, `4x HDR` or `4x ???`, which is a link at a speed that its finder did not know.
fn rate(text: &str, line: &mut PortLine) {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let Some((lanes, speed)) = word.split_once('x') else {
            continue;
        };
        line.width = match lanes {
            "1" => Some(LinkWidth::X1),
            "2" => Some(LinkWidth::X2),
            "4" => Some(LinkWidth::X4),
            "8" => Some(LinkWidth::X8),
            "12" => Some(LinkWidth::X12),
            _ => continue,
        };
        let speed = if speed.is_empty() {
            words.next().unwrap_or("")
        } else {
            speed
        };
        line.speed = self::speed(speed).or(line.speed);
    }
}

/// A speed by its name.
pub fn speed(word: &str) -> Option<LinkSpeed> {
    Some(match word {
        "SDR" => LinkSpeed::Sdr,
        "DDR" => LinkSpeed::Ddr,
        "QDR" => LinkSpeed::Qdr,
        "FDR10" => LinkSpeed::Fdr10,
        "FDR" => LinkSpeed::Fdr,
        "EDR" => LinkSpeed::Edr,
        "HDR" => LinkSpeed::Hdr,
        "NDR" => LinkSpeed::Ndr,
        "XDR" => LinkSpeed::Xdr,
        "???" => LinkSpeed::Unknown,
        _ => return None,
    })
}
