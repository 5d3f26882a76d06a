//! Making MADs: requests for the engine, replies for the simulator.

use super::header::MAX_HOPS;
use super::rmpp;
use super::{Attribute, Mad, MadView, Malformed, Method, MgmtClass, Status};

/// "Here" and "there" of a directed route.
const LID_PERMISSIVE: u16 = 0xffff;

impl Mad {
    /// A directed-route SMP. `path` holds the port to leave by at each hop,
    /// the first one the sender's own; empty means the sender's node.
    ///
    /// Fails beyond 63 hops.
    pub fn smp_dr(
        method: Method,
        attr_id: u16,
        modifier: u32,
        path: &[u8],
        tid: u64,
    ) -> Result<Mad, Malformed> {
        if path.len() > MAX_HOPS {
            return Err(Malformed::PathTooLong { hops: path.len() });
        }
        let mut mad = Mad::request(MgmtClass::SubnDirected, method, attr_id, modifier, tid);
        mad.set_hop_count(path.len() as u8);
        mad.set_dr_slid(LID_PERMISSIVE).set_dr_dlid(LID_PERMISSIVE);
        for (to, from) in mad.bytes_mut().iter_mut().skip(129).zip(path) {
            *to = *from;
        }
        Ok(mad)
    }

    /// A LID-routed SMP.
    pub fn smp_lid(method: Method, attr_id: u16, modifier: u32, tid: u64) -> Mad {
        Mad::request(MgmtClass::SubnLid, method, attr_id, modifier, tid)
    }

    /// A performance management GMP. Most attributes want the port in their
    /// `PortSelect`: see [`Mad::perf_port`].
    pub fn perf(method: Method, attr_id: u16, modifier: u32, tid: u64) -> Mad {
        Mad::request(MgmtClass::Perf, method, attr_id, modifier, tid)
    }

    /// Get of a counter attribute of one port (byte 1 of all of them is
    /// PortSelect).
    pub fn perf_port(attr_id: u16, port: u8, tid: u64) -> Mad {
        let mut mad = Mad::perf(Method::Get, attr_id, 0, tid);
        mad.set_data_bytes(&[0, port]);
        mad
    }

    /// A subnet administration GMP, its RMPP header set to "none".
    pub fn sa(method: Method, attr_id: u16, modifier: u32, component_mask: u64, tid: u64) -> Mad {
        let mut mad = Mad::request(MgmtClass::SubnAdm, method, attr_id, modifier, tid);
        mad.set_component_mask(component_mask);
        mad
    }

    /// The answer to a request: the same MAD with the response's method, this
    /// status, and for a directed route the direction and pointer of an SMP
    /// that is back at its sender.
    pub fn response_to(request: &MadView<'_>, status: Status) -> Mad {
        let mut mad = request.to_mad();
        mad.set_method(request.method().response());
        if request.class() == MgmtClass::SubnDirected {
            mad.set_returning(true).set_hop_pointer(0);
        }
        mad.set_status(status);
        mad
    }

    /// The answer to a request with an attribute in it.
    pub fn reply<A: Attribute>(request: &MadView<'_>, attribute: &A) -> Mad {
        let mut mad = Mad::response_to(request, Status::OK);
        mad.set_data(attribute);
        mad
    }

    /// The SA's answer with a table of records, all of one length, boxed where
    /// they do not fit 256 bytes: see [`rmpp::split`].
    pub fn reply_table<R: Attribute>(request: &MadView<'_>, records: &[R]) -> Mad {
        let step = R::LEN.div_ceil(8) * 8;
        let head = super::data_offset(MgmtClass::SubnAdm);
        let mut bytes = vec![0; head + step * records.len()];
        for (to, from) in bytes.iter_mut().zip(request.bytes().iter().take(head)) {
            *to = *from;
        }
        let room = bytes.get_mut(head..).unwrap_or_default();
        for (to, record) in room.chunks_mut(step.max(1)).zip(records) {
            for (to, from) in to.iter_mut().zip(record.bytes()) {
                *to = *from;
            }
        }
        let len = bytes.len();
        let mut mad = Mad::boxed_or_inline(bytes);
        mad.set_method(request.method().response())
            .set_status(Status::OK);
        mad.set_attribute_offset(if records.is_empty() {
            0
        } else {
            (step / 8) as u16
        });
        rmpp::Header::whole(len - head).put(&mut mad);
        mad
    }

    /// The acknowledgement of a Report: the notice itself, sent back.
    pub fn report_resp(report: &MadView<'_>) -> Mad {
        Mad::response_to(report, Status::OK)
    }
}
