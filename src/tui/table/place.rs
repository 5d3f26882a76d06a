//! Which columns a narrow screen keeps, and where they stand.

use super::Column;

/// Where each column stands in `room` columns, one apart: (offset, width) or nowhere.
pub(super) fn place<R>(columns: &[Column<R>], wants: &[u16], room: u16) -> Vec<Option<(u16, u16)>> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    let rank = |i: &usize| columns.get(*i).map(|c| c.rank);
    by_rank.sort_by_key(rank);
    let mut widths: Vec<Option<u16>> = vec![None; columns.len()];
    let mut used = 0u16;
    // Columns of one rank belong together: all of them are shown, or none.
    for group in by_rank.chunk_by(|a, b| rank(a) == rank(b)) {
        let mut next = used;
        for &i in group {
            let gap = u16::from(next > 0);
            let min = columns.get(i).map_or(0, |c| c.min);
            next = next.saturating_add(gap).saturating_add(min);
        }
        if next > room {
            // What ranks behind does not jump the queue: the room is better used by names.
            if used == 0
                && let Some(slot) = group.first().and_then(|&i| widths.get_mut(i))
            {
                *slot = Some(room);
                used = room;
            }
            break;
        }
        used = next;
        for &i in group {
            if let (Some(c), Some(slot)) = (columns.get(i), widths.get_mut(i)) {
                *slot = Some(c.min);
            }
        }
    }
    // What is left goes one by one to those that want more, the important ones first.
    let mut left = room.saturating_sub(used);
    while left > 0 {
        let before = left;
        for &i in &by_rank {
            let want = wants.get(i).copied().unwrap_or(0);
            if let Some(Some(w)) = widths.get_mut(i)
                && *w < want
                && left > 0
            {
                *w += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let mut x = 0;
    widths
        .into_iter()
        .map(|w| {
            let w = w?;
            let at = x;
            x += w + 1;
            Some((at, w))
        })
        .collect()
}
