//! Expectations for the runs of a scenario.

use super::Named;
use crate::node::{Node, Value};
use crate::part;
use crate::part::{Declared, Form, Kind, Names, Probability, Reader, Shape, Span, Text, Whole};
use crate::problem::{Fault, fault};

part! {
    /// A condition on what a run measures, as `"call.delay_p95_ms < 50"`. A text is the condition alone.
    Condition {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            match &node.value {
                Value::Text(_) => Ok(Node { value: Value::Table(vec![("holds".into(), node.clone())]), ..node.clone() }),
                Value::Table(_) => Ok(node.clone()),
                _ => Err(fault(
                    "this is neither a condition nor a table",
                    "Write \"call.delay_p95_ms < 50\" or { holds = \"…\", from = \"10s\" }",
                )),
            }
        }
        fn shortened(&self, table: Node) -> Node {
            match table.rows() {
                [(_, holds)] if holds.as_text().is_some() => holds.clone(),
                _ => table,
            }
        }
    }
    /// What must hold, see [conditions](ci.md#conditions).
    holds: Text, eg "\"call.delay_p95_ms < 50\"";
    /// Start of the period that this condition judges.
    from as "from_": Option<Span>, or "`expect.from`";
    /// End of that period.
    until: Option<Span>, or "`expect.until`";
}

part! {
    /// What must hold of a scenario: `tailback test` runs it with as many seeds as a verdict needs.
    Expect {
        fn check(&self) -> Result<(), Fault> {
            if self.conditions.is_empty() {
                return Err(fault("nothing is expected", "Add for example conditions = [\"call.delay_p95_ms < 50\"]"));
            }
            if self.least.0 > self.most.0 {
                return Err(fault("least is more than most", "Let most be at least as many seeds as least"));
            }
            if !(0.5..1.0).contains(&self.confidence.0) {
                return Err(fault("confidence lies from 0.5 to below 1", "Write for example confidence = 0.95"));
            }
            let own = self.conditions.iter().map(|each| (each.from.or(self.from), each.until.or(self.until)));
            for (from, until) in own {
                if until.is_some_and(|until| until <= from.unwrap_or_default()) {
                    return Err(fault("until must come after from", "Leave it out to measure to the end"));
                }
            }
            Ok(())
        }
    }
    /// All of these must hold: texts, or tables with a window of time.
    conditions: Vec<Condition>;
    /// Algorithm of the run that `baseline` in a condition stands for: the same scenario and seed with it instead,
    baseline: Option<Named>, or "no such run";
    /// of these flows.
    baseline_flows: Names = Names::All;
    /// Start of the period that conditions judge.
    from as "from_": Option<Span>, or "the start of each flow";
    /// End of that period.
    until: Option<Span>, or "the end of the run";
    /// Of the intervals that verdicts rest on.
    confidence: Probability = Probability(0.95);
    /// Seeds that are always run,
    least: Whole<2, 10_000> = Whole(5);
    /// and that are run at most while a condition is undecided.
    most: Whole<2, 10_000> = Whole(50);
}
