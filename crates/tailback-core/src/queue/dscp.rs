//! DSCPs of flows. Packets carry no DSCP here, so disciplines that need one look it up by flow.

use crate::params::{Checked, ParamSpec};
use crate::scenario::{FlowSpec, ScenarioError};

/// Lower effort (RFC 8622), voice admit (RFC 5865), expedited forwarding (RFC 3246).
pub(super) const LE: u8 = 1;
pub(super) const VA: u8 = 44;
pub(super) const EF: u8 = 46;

/// The `dscp` parameter, shared by every discipline that reads DSCPs.
pub(super) const PARAM: ParamSpec = ParamSpec::text(
    "dscp",
    "DSCP of flows by name, such as \"call=ef backup=cs1\"; a name stands for its numbered flows too.",
);

/// The DSCP of each flow in the scenario, by number; best effort unless `dscp` sets another.
pub fn of_flows(given: &Checked<'_>, flows: &[FlowSpec]) -> Result<Vec<u8>, ScenarioError> {
    let mut marked: Vec<(&str, u8)> = Vec::new();
    for word in given.text("dscp").split_whitespace() {
        let Some((name, dscp)) = word.split_once('=').and_then(|(name, dscp)| Some((name, named(dscp)?)))
        else {
            let problem = format!("\"{word}\" is no flow with its DSCP");
            return Err(given.refuse("dscp", &problem, "Write for example \"call=ef backup=cs1 page=0\""));
        };
        if !flows.is_empty() && !flows.iter().any(|flow| is_called(&flow.name, name)) {
            let problem = format!("there is no flow called {name}");
            return Err(given.refuse("dscp", &problem, "Name flows of the scenario"));
        }
        marked.push((name, dscp));
    }
    let of =
        |flow: &FlowSpec| marked.iter().find(|(name, _)| is_called(&flow.name, name)).map_or(0, |it| it.1);
    Ok(flows.iter().map(of).collect())
}

/// Linux's priority for a packet of this DSCP, from its bits in the old type-of-service field (tc-prio(8)).
pub fn priority(dscp: u8) -> u8 {
    match (dscp & 4 != 0, dscp & 2 != 0) {
        (true, false) => 6,
        (true, true) => 4,
        (false, true) => 2,
        (false, false) => 0,
    }
}

/// Linux's band (of three) for a DSCP, by its priority: interactive first, bulk last.
pub fn band(dscp: u8) -> u8 {
    match priority(dscp) {
        6 => 0,
        2 => 2,
        _ => 1,
    }
}

/// The number of a DSCP by its name (RFC 2474, 2597, 3246, 5865 and 8622), or itself.
pub(super) fn named(word: &str) -> Option<u8> {
    let word = word.to_ascii_lowercase();
    let digits = |prefix: &str| word.strip_prefix(prefix).and_then(|rest| rest.parse::<u8>().ok());
    match word.as_str() {
        "ef" => return Some(EF),
        "va" => return Some(VA),
        "le" => return Some(LE),
        "be" | "df" => return Some(0),
        _ => {}
    }
    if let Some(class) = digits("cs") {
        return (class < 8).then_some(class * 8);
    }
    if let Some(number) = digits("af") {
        let (class, drop) = (number / 10, number % 10);
        return ((1..=4).contains(&class) && (1..=3).contains(&drop)).then_some(8 * class + 2 * drop);
    }
    word.parse().ok().filter(|number| *number < 64)
}

/// Whether `flow` is the flow of this name, its reverse (`.back`), or one of its numbered copies.
pub(super) fn is_called(flow: &str, name: &str) -> bool {
    flow.strip_prefix(name).is_some_and(|rest| {
        rest.is_empty()
            || rest == ".back"
            || rest.strip_prefix('-').is_some_and(|rest| rest.parse::<u32>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::cake::Cake;
    use crate::queue::registry::Registered;
    use crate::scenario::{Params, Value};

    #[test]
    fn what_is_no_dscp_has_no_number() {
        for word in ["cs8", "af15", "af51", "64", "x"] {
            assert_eq!(named(word), None, "{word}");
        }
    }

    #[test]
    fn a_dscp_that_is_none_is_refused_by_name() {
        let refused = |text: &str| {
            let params = Params::from([("dscp".to_string(), Value::Name(text.into()))]);
            let given = Checked::new(&Cake::CARD, &params, "q").unwrap();
            of_flows(&given, &[]).unwrap_err().problem
        };
        assert!(refused("call").contains("\"call\""));
        assert!(refused("call=fast").contains("\"call=fast\""));
        assert!(
            is_called("call-12", "call") && is_called("call.back", "call") && !is_called("caller", "call")
        );
    }
}
