//! Suggestions for well-known queues and applications that have no model of that name.

use tailback_core::queue::outside;

/// Common names for the function of one of our queue disciplines.
const QUEUES: &[(&[&str], &str)] = &[
    (&["droptail", "drop-tail", "tail-drop", "taildrop"], "fifo, the drop-tail queue"),
    (&["sfb", "wfq", "fair"], "fq_codel, a queue for each flow"),
    (&["fqpie", "fq-pie"], "fq_pie, a PIE for each flow"),
    (&["sch_fq", "fair-queue"], "fq, a fair queue with pacing"),
    (&["priority", "multiband"], "prio, bands by flow or DSCP"),
    (&["htb", "tbf", "hfsc", "policer", "shaper"], "token_bucket, which holds a rate with an inner queue"),
    (&["l4s", "dualq", "dualq-coupled"], "dualpi2, the coupled queue of RFC 9332"),
];

/// Common names for the function of one of our applications.
const APPLICATIONS: &[(&[&str], &str)] = &[
    (
        &[
            "zoom",
            "teams",
            "facetime",
            "videocall",
            "video-call",
            "videoconference",
            "conference",
            "rtc",
            "nada",
        ],
        "app = \"media\" with two_way = true: video whose rate adapts, in both directions",
    ),
    (
        &["webrtc", "meet", "gcc", "libwebrtc"],
        "app = \"media-gcc\" with two_way = true: video by WebRTC's congestion control, in both directions",
    ),
    (
        &["skype", "call", "voice", "phone", "telephone", "sip", "rtp"],
        "app = \"voip\" with two_way = true: a voice call, in both directions",
    ),
    (
        &["youtube", "netflix", "dash", "hls", "streaming", "stream", "film", "movie"],
        "app = \"video\": a film in segments, whose player chooses the bitrate",
    ),
    (
        &["http", "https", "browser", "chrome", "firefox", "browsing", "pages", "har"],
        "app = \"page\": a page's objects as of a HAR file, or \"web\": the sessions of many readers",
    ),
    (
        &["iperf", "iperf3", "download", "upload", "file", "scp", "rsync", "tcp", "quic", "greedy"],
        "app = \"bulk\": data without end, or with bytes = \"10MB\"",
    ),
    (&["udp", "cbr", "flood", "constant"], "app = \"udp-cbr\": a constant rate over UDP"),
    (&["gaming", "fps", "shooter"], "app = \"game\" with two_way = true: state updates, in both directions"),
    (&["ssh", "dns", "rpc"], "app = \"request-response\": small questions and answers"),
];

/// A sentence that suggests what to use for a queue of this name.
pub fn of_queue(name: &str) -> Option<String> {
    if let Some((_, model)) = outside::disciplines().find(|(known, _)| *known == name) {
        let kernels = format!("{}{name}", outside::PREFIX);
        return Some(format!(
            "Use {}, the nearest model, or the kernel's own with --engine live or vm: \"{kernels}\"",
            model.name
        ));
    }
    find(QUEUES, name).map(|model| format!("Use {model}"))
}

/// A sentence that suggests what to use for an application of this name.
pub fn of_application(name: &str) -> Option<String> {
    find(APPLICATIONS, name).map(|model| format!("Use {model}"))
}

fn find(table: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    table.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, model)| *model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailback_core::{queue, traffic};

    #[test]
    fn no_name_of_a_model_is_sent_elsewhere_and_each_model_named_exists() {
        for card in queue::registry::cards() {
            assert_eq!(find(QUEUES, card.name), None, "{}", card.name);
        }
        for card in traffic::registry::cards() {
            assert_eq!(of_application(card.name), None, "{}", card.name);
        }
        for (_, text) in APPLICATIONS {
            let name = text.split('"').nth(1).expect("an application in quotes");
            assert!(traffic::registry::cards().iter().any(|card| card.name == name), "{name}");
        }
        for (_, text) in QUEUES {
            let name = text.split(',').next().expect("a queue before the comma");
            assert!(queue::registry::cards().iter().any(|card| card.name == name), "{name}");
        }
    }

    #[test]
    fn the_kernels_queues_are_named_with_their_models() {
        let pfifo = of_queue("pfifo").expect("the kernel has it");
        for part in ["Use fifo", "\"kernel:pfifo\"", "--engine"] {
            assert!(pfifo.contains(part), "{pfifo}");
        }
        assert_eq!(of_queue("nonsense"), None);
    }
}
