//! A handshake without cryptography: TLS 1.3's messages in their order and with typical sizes, and keys that change
//! nothing.
//!
//! A message consists of the length of its transport parameters (two bytes), the parameters in the two messages that
//! carry them, and zeros.

/// Appended to a packet in place of the AEAD tag (RFC 9001 section 5.3).
pub const TAG: [u8; 16] = [0x5a; 16];

/// Sizes of the four messages in bytes, typical of a handshake with a small ECDSA certificate: ClientHello,
/// ServerHello, EncryptedExtensions to Finished, and the client's Finished. RFC 8448 section 3 has 196, 90, 657 and 36
/// with RSA.
const SIZES: [usize; 4] = [250, 90, 700, 36];

/// One side of the handshake.
#[derive(Debug)]
pub struct Handshake {
    is_client: bool,
    /// Our encoded transport parameters.
    params: Vec<u8>,
    /// The peer's transport parameters, once received.
    pub peer_params: Option<Vec<u8>>,
    /// Index of the next message to send or receive.
    next: usize,
    received: Vec<u8>,
}

/// Keys that become available after writing a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// No keys.
    None,
    /// Keys for the next packet number space.
    Next,
}

impl Handshake {
    /// A side with these encoded transport parameters.
    pub fn new(is_client: bool, params: Vec<u8>) -> Self {
        Handshake { is_client, params, peer_params: None, next: 0, received: Vec::new() }
    }

    /// Whether the handshake is not yet complete.
    pub fn is_under_way(&self) -> bool {
        self.next < SIZES.len()
    }

    fn sends(&self, message: usize) -> bool {
        matches!(message, 0 | 3) == self.is_client
    }

    /// Processes bytes of the peer's messages; returns true when the peer's parameters first become known.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        self.received.extend_from_slice(bytes);
        let knew = self.peer_params.is_some();
        while self.next < SIZES.len() && !self.sends(self.next) && self.received.len() >= 2 {
            let length = usize::from(u16::from_le_bytes([self.received[0], self.received[1]]));
            let size = SIZES[self.next].max(length + 2);
            if self.received.len() < size {
                break;
            }
            if length > 0 {
                self.peer_params = Some(self.received[2..2 + length].to_vec());
            }
            self.received.drain(..size);
            self.next += 1;
            // The client must be asked for the keys of this message before the next message is read.
            if self.is_client {
                break;
            }
        }
        !knew && self.peer_params.is_some()
    }

    /// Writes the next message if it is our turn; returns the keys that follow. Call it until it writes nothing.
    pub fn write(&mut self, out: &mut Vec<u8>, keys_given: &mut usize) -> Keys {
        if self.next < SIZES.len() && self.sends(self.next) {
            let params: &[u8] = if matches!(self.next, 0 | 2) { &self.params } else { &[] };
            let end = out.len() + SIZES[self.next].max(params.len() + 2);
            out.extend_from_slice(&(params.len() as u16).to_le_bytes());
            out.extend_from_slice(params);
            out.resize(end, 0);
            self.next += 1;
        }
        // At either side, handshake keys follow the ServerHello and data keys the server's Finished.
        let due = self.next.saturating_sub(1).min(2);
        if *keys_given < due {
            *keys_given += 1;
            return Keys::Next;
        }
        Keys::None
    }
}
