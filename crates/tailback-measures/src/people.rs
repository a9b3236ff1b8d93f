//! Quality of experience: late updates of games, start-up delay, stalls and bitrate changes of video streams, and page
//! load times.

use tailback_core::traffic::video::Playback;

/// `late_share`: share of updates that took longer than this bound or were lost; NaN without updates.
pub fn late_share(delays_s: &[f64], bound_s: f64) -> f64 {
    // A lost update's delay is NaN.
    let in_time = delays_s.iter().filter(|delay| **delay <= bound_s).count() as f64;
    if delays_s.is_empty() { f64::NAN } else { 1.0 - in_time / delays_s.len() as f64 }
}

/// A video segment or web object that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// When it was requested.
    pub asked_s: f64,
    /// When its last byte arrived.
    pub arrived_s: f64,
    /// Payload of the segment or object.
    pub bytes: f64,
}

/// `film`: the playback of a video stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Film {
    /// Time from the first request until playback starts.
    pub startup_s: f64,
    /// Total time that playback stalled afterwards.
    pub stalled_s: f64,
    /// Number of stalls.
    pub stalls: u64,
    /// Number of bitrate changes.
    pub switches: u64,
    /// Mean bitrate of the segments that arrived.
    pub bitrate_bps: f64,
}

/// Playback of `segments`, in order and each `segment_s` long, until `end_s`.
pub fn film(segments: &[Segment], segment_s: f64, start_after_s: f64, end_s: f64) -> Film {
    let began = segments.first().map_or(end_s, |first| first.asked_s);
    let mut playback = Playback::new(start_after_s, began);
    for segment in segments {
        playback.arrived(segment.arrived_s, segment_s);
    }
    playback.until(end_s);
    let bytes: f64 = segments.iter().map(|segment| segment.bytes).sum();
    Film {
        startup_s: playback.startup_s,
        stalled_s: playback.stalled_s,
        stalls: playback.stalls,
        switches: segments.windows(2).filter(|pair| pair[0].bytes != pair[1].bytes).count() as u64,
        bitrate_bps: 8.0 * bytes / (segment_s * segments.len() as f64),
    }
}

/// One load of a page (`page_loads`); values of a load that did not complete are NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageLoad {
    /// When the load began.
    pub began_s: f64,
    /// Time until all objects had arrived.
    pub load_time_s: f64,
    /// Speed Index: integral over time of the share of the page's bytes that is still missing.
    pub speed_index_s: f64,
}

/// The loads of a page, given the start and duration of each, from the `objects` of all of them.
pub fn page_loads(loads: &[(f64, f64)], objects: &[Segment]) -> Vec<PageLoad> {
    let one = |(began_s, load_time_s): &(f64, f64)| {
        // Rounding may place the last object a picosecond after the end of the load.
        let end = began_s + load_time_s + 1e-9;
        let mine = objects.iter().filter(|object| object.asked_s >= *began_s && object.arrived_s <= end);
        let (mut bytes, mut weighted) = (0.0, 0.0);
        for object in mine {
            bytes += object.bytes;
            weighted += object.bytes * (object.arrived_s - began_s);
        }
        PageLoad { began_s: *began_s, load_time_s: *load_time_s, speed_index_s: weighted / bytes }
    };
    loads.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_late() {
        assert_eq!(late_share(&[0.01, 0.05, 0.06, f64::NAN], 0.05), 0.5);
        assert!(late_share(&[], 0.05).is_nan());
    }

    #[test]
    fn a_film_is_what_its_segments_make_of_it() {
        let of = |asked_s: f64, arrived_s: f64, bytes: f64| Segment { asked_s, arrived_s, bytes };
        // Playback starts at 2 s; 4 s are played at 6 s, the next segment arrives at 9 s; then two are buffered.
        let found = film(&[of(1.0, 2.0, 500.0), of(2.0, 9.0, 1000.0), of(9.0, 10.0, 1000.0)], 4.0, 4.0, 12.0);
        let wanted =
            Film { startup_s: 1.0, stalled_s: 3.0, stalls: 1, switches: 1, bitrate_bps: 8.0 * 2500.0 / 12.0 };
        assert_eq!(found, wanted);
        let nothing = film(&[], 4.0, 4.0, 12.0);
        assert!(nothing.startup_s.is_nan() && nothing.bitrate_bps.is_nan());
    }

    #[test]
    fn a_load_counts_its_own_objects_by_their_bytes() {
        let of = |asked_s: f64, arrived_s: f64, bytes: f64| Segment { asked_s, arrived_s, bytes };
        let objects = [of(1.0, 2.0, 100.0), of(2.0, 3.0, 300.0), of(9.0, 10.0, 1.0)];
        let [whole, cut] = page_loads(&[(1.0, 2.0), (9.0, f64::NAN)], &objects)[..] else {
            panic!("two loads")
        };
        assert_eq!(
            whole,
            PageLoad { began_s: 1.0, load_time_s: 2.0, speed_index_s: 0.25 * 1.0 + 0.75 * 2.0 }
        );
        assert!(cut.load_time_s.is_nan() && cut.speed_index_s.is_nan());
    }
}
