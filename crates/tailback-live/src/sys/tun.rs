//! TUN devices, including the offload work that their packets leave to a network card: checksums and segmentation.

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_size};

/// Length of the header before each packet (linux/virtio_net.h, `struct virtio_net_hdr`).
const HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Asks for the flags that the kernel supports (linux/if_tun.h).
const TUNGETFEATURES: libc::c_ulong = 0x8004_54cf;
/// TCP's ECN bits are in use: only the first segment carries CWR.
const GSO_ECN: u8 = 0x80;

/// Offload work that a packet's sender has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    header: [u8; HEADER],
}

impl Offload {
    /// Only the checksum of a TCP segment behind an IP header of this many bytes.
    pub fn checksum_of_tcp(ip_header: usize) -> Self {
        const PLACE_OF_SUM: u16 = 16;
        let mut header = [0; HEADER];
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&(ip_header as u16).to_ne_bytes());
        header[8..10].copy_from_slice(&PLACE_OF_SUM.to_ne_bytes());
        Offload { header }
    }

    /// Payload of each segment that the packet must be cut into; `None` if it is not to be cut.
    pub fn segment_bytes(&self) -> Option<usize> {
        let is_tcp = [GSO_TCPV4, GSO_TCPV6].contains(&(self.header[1] & !GSO_ECN));
        is_tcp.then(|| usize::from(u16::from_ne_bytes([self.header[4], self.header[5]])))
    }
}

/// A packet as read from or written to a device.
#[derive(Clone, Debug, Default)]
pub struct Framed {
    /// The offload work that is left.
    pub offload: Offload,
    /// The IP packet.
    pub packet: Vec<u8>,
}

/// A TUN device, held from outside its namespace. It is removed when this is dropped.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates a device called `name` for IP packets in the calling thread's namespace; `cuts` allows TCP segments
    /// larger than a packet.
    pub fn open(name: &str, cuts: bool) -> io::Result<Self> {
        Self::open_as(name, cuts, 0)
    }

    /// A device that leaves packets in its queueing discipline until earlier ones are read, as in Linux 7.3.
    pub fn open_waiting(name: &str) -> io::Result<Self> {
        /// Defined in headers newer than libc's.
        const IFF_BACKPRESSURE: i16 = 0x80;
        Self::open_as(name, false, IFF_BACKPRESSURE)
    }

    fn open_as(name: &str, cuts: bool, flags: i16) -> io::Result<Self> {
        let path = CString::new("/dev/net/tun")?;
        let more = if cuts { libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN } else { 0 };
        // SAFETY: `path` and `request` outlive the calls; the descriptor gets an owner at once.
        unsafe {
            let fd = check(libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC))?;
            let fd = OwnedFd::from_raw_fd(fd);
            // The kernel ignores unknown flags.
            let mut known: libc::c_uint = 0;
            check(libc::ioctl(fd.as_raw_fd(), TUNGETFEATURES as _, &raw mut known))?;
            if flags & !(known as i16) != 0 {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            let mut request: libc::ifreq = mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags =
                (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16 | flags;
            check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &mut request))?;
            let features = libc::c_ulong::from(libc::TUN_F_CSUM | more);
            check(libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, features))?;
            Ok(Tun(fd))
        }
    }

    /// Another handle of the same device.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Tun)
    }

    /// Reads a packet into `buffer`: its length and the offload work left; `None` if there is none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Offload)>> {
        let mut offload = Offload::default();
        let mut parts = [IoSliceMut::new(&mut offload.header), IoSliceMut::new(buffer)];
        // SAFETY: IoSliceMut is guaranteed to have the layout of iovec; both buffers are ours during the call.
        let got = check_size(unsafe { libc::readv(self.0.as_raw_fd(), parts.as_mut_ptr().cast(), 2) });
        match got {
            Ok(length) => Ok(Some((length.saturating_sub(HEADER), offload))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the host.
    pub fn write(&self, frame: &Framed) -> io::Result<()> {
        let parts = [IoSlice::new(&frame.offload.header), IoSlice::new(&frame.packet)];
        // SAFETY: IoSlice is guaranteed to have the layout of iovec; both buffers are ours during the call.
        check_size(unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr().cast(), 2) }).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
