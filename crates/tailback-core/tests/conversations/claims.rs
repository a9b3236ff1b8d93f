//! A script's claims about the endpoint's state, and the format of segments in error messages.

use tailback_core::cc::Control;
use tailback_core::tcp::segment::{Flags, Range, Segment};
use tailback_core::time::{Duration, Time};

use super::script::Spoken;
use super::talk::Talk;

impl Talk {
    pub fn judge(&self, (name, operator, wanted): &(String, String, String)) -> Result<(), String> {
        let sender = &self.end.sender;
        let mss = f64::from(self.options.mss);
        let segments = |bytes: u64| bytes as f64 / mss;
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        let found = match name.as_str() {
            "phase" | "state" => {
                let text = match name.as_str() {
                    "phase" => sender.phase().word().to_string(),
                    _ => format!("{:?}", self.end.state()),
                };
                let holds = match operator.as_str() {
                    "==" => text == *wanted,
                    "!=" => text != *wanted,
                    _ => return Err(format!("{operator}: not for names")),
                };
                return if holds {
                    Ok(())
                } else {
                    Err(format!("{name} is {text}, not {operator} {wanted}"))
                };
            }
            "cwnd" => segments(sender.control.cwnd),
            "ssthresh" if sender.control.ssthresh == Control::UNLIMITED => f64::INFINITY,
            "ssthresh" => segments(sender.control.ssthresh),
            "in_flight" => segments(sender.in_flight()),
            "rto_ms" => ms(sender.timeout()),
            "srtt_ms" => ms(sender.rtt.srtt()),
            "queued" => sender.queued() as f64,
            "reordering" => f64::from(sender.reordering()),
            "timeouts" => sender.count.timeouts as f64,
            "recoveries" => sender.count.recoveries as f64,
            "undos" => sender.count.undos as f64,
            "marked" => sender.marked_packets() as f64,
            "retransmitted" => sender.count.segments_retransmitted as f64,
            "delivered" => self.end.receiver.delivered() as f64,
            "acked" => sender.bytes_acked() as f64,
            "reassembly" => f64::from(self.end.receiver.reassembly_segments()),
            "failed" => f64::from(u8::from(self.end.has_failed())),
            _ if name.starts_with("saved_") => {
                let mut left = self.options.recalled;
                sender.leave_metrics(&mut left);
                match name.as_str() {
                    "saved_ssthresh" => segments(left.ssthresh),
                    "saved_cwnd" => segments(left.cwnd),
                    "saved_srtt_ms" => ms(left.srtt),
                    "saved_deviation_ms" => ms(left.deviation),
                    "saved_reordering" => f64::from(left.reordering),
                    _ => return Err(format!("{name}: unknown quantity")),
                }
            }
            _ => return Err(format!("{name}: unknown quantity")),
        };
        let number: f64 = match wanted.as_str() {
            "unlimited" => f64::INFINITY,
            text => text.parse().map_err(|_| format!("{wanted}: not a number"))?,
        };
        let is_near = found == number || (found - number).abs() < 1e-3;
        let holds = match operator.as_str() {
            "==" => is_near,
            "!=" => !is_near,
            "<=" => found <= number,
            ">=" => found >= number,
            "<" => found < number,
            ">" => found > number,
            _ => return Err(format!("{operator}: unknown operator")),
        };
        if holds { Ok(()) } else { Err(format!("{name} is {found}, not {operator} {wanted}")) }
    }
}

pub fn seconds(at: Time) -> String {
    format!("{:.6} s", at.as_secs_f64())
}

pub fn describe_flags(flags: Flags) -> String {
    [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::PSH, 'P'),
        (Flags::RST, 'R'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
        (Flags::AE, 'A'),
        (Flags::ACK, '.'),
    ]
    .into_iter()
    .filter(|(flag, _)| flags.has(*flag))
    .map(|(_, letter)| letter)
    .collect()
}

pub fn describe_blocks(blocks: &[Range]) -> String {
    let blocks: Vec<String> =
        blocks.iter().map(|block| format!("{}:{}", block.start + 1, block.end + 1)).collect();
    if blocks.is_empty() { String::new() } else { format!(" <sack {}>", blocks.join(" ")) }
}

pub fn describe(segment: &Segment) -> String {
    let start = segment.seq.wrapping_add(u64::from(!segment.flags.has(Flags::SYN)));
    format!(
        "{} {start}:{}({}) ack {} win {}{} TS val {:.3} ecr {:.3} wscale {}",
        describe_flags(segment.flags),
        start + u64::from(segment.len),
        segment.len,
        segment.ack + 1,
        segment.window,
        describe_blocks(segment.sack_blocks()),
        segment.ts_val.as_secs_f64() * 1e3,
        if segment.ts_ecr == Time::NEVER { -1.0 } else { segment.ts_ecr.as_secs_f64() * 1e3 },
        segment.window_scale,
    )
}

pub fn describe_spoken(spoken: &Spoken) -> String {
    format!(
        "{} {}:{}({}) ack {:?} win {:?}{} TS {:?} wscale {:?}",
        describe_flags(spoken.flags),
        spoken.start,
        spoken.start + u64::from(spoken.length),
        spoken.length,
        spoken.ack,
        spoken.window,
        describe_blocks(&spoken.sack),
        spoken.stamp,
        spoken.scale,
    )
}
