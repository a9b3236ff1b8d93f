//! TCP_INFO.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// The fields of the kernel's report on a connection that we read (linux/tcp.h, `struct tcp_info`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the fields are the kernel's, in its order; see tcp(7) and linux/tcp.h")]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// Window scales: the sender's in the low half, the receiver's in the high half.
    pub scales: u8,
    pub flags: u8,
    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}

impl TcpInfo {
    /// Parses the kernel's bytes. Fields that the kernel does not have stay zero.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut info = TcpInfo::default();
        let length = bytes.len().min(mem::size_of::<TcpInfo>());
        // SAFETY: the structure consists of plain numbers, and at most its size is copied.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut info).cast::<u8>(), length);
        }
        info
    }
}

/// Reads TCP_INFO. Fields that an older kernel does not have stay zero.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut length = mem::size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the structure consists of plain numbers; the call writes at most `length` bytes of it.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    })?;
    Ok(info)
}
