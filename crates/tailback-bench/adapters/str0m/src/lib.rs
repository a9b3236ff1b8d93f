//! Null cryptography for str0m, without random numbers: records are as long as with AES-GCM over DTLS 1.2, the
//! handshake is one hello in each direction, and there is no media.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use str0m::crypto::dtls::{
    DtlsCert, DtlsImplError, DtlsInstance, DtlsOutput, DtlsProvider, DtlsVersion, ProtocolVersion,
};
use str0m::crypto::{CryptoError, CryptoProvider, Sha256Provider, SrtpProvider, SupportedAeadAes128Gcm};
use str0m::crypto::{Sha1HmacProvider, SupportedAeadAes256Gcm, SupportedAes128CmSha1_80};

/// The length of a record's header, explicit nonce and tag.
const OVERHEAD: usize = 13 + 8 + 16;
const HELLO: u8 = 22;
const DATA: u8 = 23;
const BYE: u8 = 21;

#[derive(Debug)]
pub struct Null;

pub fn null() -> CryptoProvider {
    CryptoProvider {
        srtp_provider: &Null,
        sha1_hmac_provider: &Null,
        sha256_provider: &Null,
        dtls_provider: &Null,
    }
}

impl Sha1HmacProvider for Null {
    fn sha1_hmac(&self, _key: &[u8], _payloads: &[&[u8]]) -> [u8; 20] {
        [1; 20]
    }
}

impl Sha256Provider for Null {
    fn sha256(&self, _data: &[u8]) -> [u8; 32] {
        [2; 32]
    }
}

impl SrtpProvider for Null {
    fn aes_128_cm_sha1_80(&self) -> &'static dyn SupportedAes128CmSha1_80 {
        unreachable!("there is no media")
    }
    fn aead_aes_128_gcm(&self) -> &'static dyn SupportedAeadAes128Gcm {
        unreachable!("there is no media")
    }
    fn aead_aes_256_gcm(&self) -> &'static dyn SupportedAeadAes256Gcm {
        unreachable!("there is no media")
    }
    fn srtp_aes_128_ecb_round(&self, _key: &[u8], _input: &[u8], _output: &mut [u8]) {
        unreachable!("there is no media")
    }
    fn srtp_aes_256_ecb_round(&self, _key: &[u8], _input: &[u8], _output: &mut [u8]) {
        unreachable!("there is no media")
    }
}

impl DtlsProvider for Null {
    fn generate_certificate(&self) -> Option<DtlsCert> {
        Some(DtlsCert { certificate: vec![3], private_key: vec![3] })
    }
    fn new_dtls(
        &self,
        _cert: &DtlsCert,
        now: Instant,
        _version: DtlsVersion,
        _mtu: Option<usize>,
    ) -> Result<Box<dyn DtlsInstance>, CryptoError> {
        let (to_send, arrived) = Default::default();
        let (is_active, is_connected, is_closing) = (false, false, false);
        Ok(Box::new(Dtls { now, is_active, hello_at: now, is_connected, is_closing, to_send, arrived }))
    }
}

/// One end. The active end repeats its hello until it is answered.
#[derive(Debug)]
struct Dtls {
    now: Instant,
    is_active: bool,
    hello_at: Instant,
    is_connected: bool,
    is_closing: bool,
    to_send: VecDeque<Vec<u8>>,
    arrived: VecDeque<Vec<u8>>,
}

impl Dtls {
    fn send(&mut self, kind: u8, data: &[u8]) {
        let mut record = vec![0; OVERHEAD];
        record[0] = kind;
        record.extend(data);
        self.to_send.push_back(record);
    }
}

impl DtlsInstance for Dtls {
    fn set_active(&mut self, active: bool) {
        self.is_active = active;
    }
    fn handle_packet(&mut self, packet: &[u8]) -> Result<(), DtlsImplError> {
        let Some(&kind) = packet.first() else { return Ok(()) };
        if kind == HELLO && !self.is_active {
            self.send(HELLO, &[]);
        }
        // Data that overtakes the hello's answer is lost.
        if (kind == HELLO) != self.is_connected {
            self.arrived.push_back(packet.to_vec());
            self.is_connected = true;
        }
        Ok(())
    }
    fn poll_output<'a>(&mut self, buf: &'a mut [u8]) -> DtlsOutput<'a> {
        let waits = self.is_active && !self.is_connected;
        if waits && self.hello_at <= self.now && self.to_send.is_empty() {
            self.hello_at = self.now + Duration::from_secs(1);
            self.send(HELLO, &[]);
        }
        let mut filled = |record: &[u8], skip: usize| {
            let bytes = record.len() - skip;
            buf[..bytes].copy_from_slice(&record[skip..]);
            bytes
        };
        if let Some(record) = self.to_send.pop_front() {
            let bytes = filled(&record, 0);
            return DtlsOutput::Packet(&buf[..bytes]);
        }
        match self.arrived.pop_front() {
            Some(record) if record[0] == HELLO => DtlsOutput::Connected,
            Some(record) if record[0] == BYE => DtlsOutput::CloseNotify,
            Some(record) => {
                let bytes = filled(&record, OVERHEAD);
                DtlsOutput::ApplicationData(&buf[..bytes])
            }
            None if waits => DtlsOutput::Timeout(self.hello_at),
            None => DtlsOutput::Timeout(self.now + Duration::from_secs(3600)),
        }
    }
    fn handle_timeout(&mut self, now: Instant) -> Result<(), DtlsImplError> {
        self.now = now;
        Ok(())
    }
    fn send_application_data(&mut self, data: &[u8]) -> Result<(), DtlsImplError> {
        if !self.is_connected {
            return Err(DtlsImplError::HandshakePending);
        }
        self.send(DATA, data);
        Ok(())
    }
    fn is_active(&self) -> bool {
        self.is_active
    }
    fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.is_connected.then_some(ProtocolVersion::DTLS1_2)
    }
    fn is_closing(&self) -> bool {
        self.is_closing
    }
    fn is_closed(&self) -> bool {
        self.is_closing && self.to_send.is_empty()
    }
    fn close(&mut self) -> Result<(), DtlsImplError> {
        self.is_closing = true;
        self.send(BYE, &[]);
        Ok(())
    }
}
