use std::fmt;

use tailback_core::cc::external::Makers;
use tailback_core::engine::Simulation;
use tailback_core::probe::Tables;
use tailback_core::scenario as engine;
use tailback_measures::run::{self, Run, Window, keys, measurable};
use tailback_measures::verdict;
use tailback_scenario::condition::{Condition, Metrics};
use tailback_scenario::part::Names;
use tailback_scenario::schema::Expect;
use tailback_scenario::text;

pub use tailback_measures::verdict::{Interval, Verdict};

use crate::error::{Error, Problem};
use crate::result;
use crate::scenario::Scenario;

/// Runs a scenario with as many seeds as the conditions of its `[expect]` need: from `least` until every condition has
/// passed, one has failed, or `most` seeds have run. An error if it has no conditions, if one cannot be read, or if a run
/// fails.
///
/// ```
/// let text = "duration = '2s'\n[dumbbell]\nrate = '5mbit'\nrtt = '20ms'\n[[flow]]\nname = 'a'\n\
///             [expect]\nconditions = ['utilisation > 0.9', 'a.goodput_mbps in 4..5']";
/// let tested = tailback::test(&tailback::Scenario::from_toml(text)?)?;
/// assert_eq!(tested.verdict(), tailback::Verdict::Passed, "{tested}");
/// # Ok::<(), tailback::Error>(())
/// ```
pub fn test(scenario: &Scenario) -> Result<Tested, Error> {
    let Some(expect) = &scenario.expect else {
        let fix = "Add [expect] with conditions, such as \"a.goodput_mbps > 8\".";
        return Err(Error::one("expect", "the scenario expects nothing", fix));
    };
    let conditions = conditions(scenario, expect)?;
    let baseline = baseline(scenario, expect)?;
    let uses_baseline = conditions.iter().any(|(condition, _)| condition.needs_baseline());
    let (least, most) = (expect.least.0, expect.most.0);
    let mut sides: Vec<Vec<Vec<f64>>> = vec![Vec::new(); conditions.len()];
    let mut seeds: Vec<u64> = Vec::new();
    let mut faults: Vec<String> = Vec::new();
    loop {
        let have = seeds.len() as u64;
        // A quarter more per step: each evaluation costs little, and at most a quarter of the seeds is wasted.
        let more = if have == 0 { least } else { (have / 4).max(2).min(most - have) };
        for seed in (have..have + more).map(|at| scenario.engine.seed.wrapping_add(at)) {
            let ran = |engine: &engine::Scenario| {
                let engine = engine::Scenario { seed, ..engine.clone() };
                let (tables, faults) = result::ran(&engine, &scenario.hosted.0).map_err(|error| {
                    let fix = "Run it alone with this seed.";
                    Error::one("", format!("the run with seed {seed} failed: {error}"), fix)
                })?;
                Ok::<_, Error>((engine, tables, faults))
            };
            let own = ran(&scenario.engine)?;
            faults.extend_from_slice(&own.2);
            let other = if uses_baseline { baseline.as_ref().map(ran).transpose()? } else { None };
            for (place, (condition, window)) in conditions.iter().enumerate() {
                let of = |run: &Option<&(engine::Scenario, Tables, Vec<String>)>, name: &str| {
                    run.and_then(|(scenario, tables, _)| Run { scenario, tables }.measure(name, *window))
                        .unwrap_or(f64::NAN)
                };
                let (run, base) = (Some(&own), other.as_ref());
                sides[place].push(condition.sides(&|name| of(&run, name), &|name| of(&base, name)));
            }
            seeds.push(seed);
        }
        let judged = conditions
            .iter()
            .zip(&sides)
            .map(|((condition, _), sides)| judged(condition, sides, &seeds, expect.confidence.0));
        let judged = judged.collect();
        let tested = Tested { judged, seeds: seeds.clone(), faults: faults.clone() };
        if tested.verdict() != Verdict::Undecided || seeds.len() as u64 >= most {
            return Ok(tested);
        }
    }
}

/// The verdicts on a scenario's conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    judged: Vec<Judged>,
    seeds: Vec<u64>,
    faults: Vec<String>,
}

/// The verdict on one condition, with its data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judged {
    /// The condition as written.
    pub condition: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The condition's left side over the seeds.
    pub measured: Interval,
    /// Each bound over the seeds, in the unit of the left side.
    pub bounds: Vec<Interval>,
    /// The seed whose run violates the condition most, or satisfies it by the least.
    pub worst_seed: u64,
}

impl Tested {
    /// The overall verdict: failed if any condition failed; otherwise undecided if any is undecided.
    pub fn verdict(&self) -> Verdict {
        self.judged.iter().map(|each| each.verdict).max().unwrap_or(Verdict::Passed)
    }

    /// The judged conditions, in the order of the file.
    pub fn conditions(&self) -> &[Judged] {
        &self.judged
    }

    /// The seeds that were run.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Rules that foreign stacks broke in these runs, one sentence each; each such flow ended at that moment.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// One line per condition.
impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for each in &self.judged {
            let verdict = each.verdict.word();
            let Interval { estimate, low, high } = each.measured;
            let seeds = self.seeds.len();
            write!(f, "{verdict}: {}: {estimate:.4} [{low:.4}, {high:.4}], {seeds} seeds", each.condition)?;
            let worst = if each.verdict == Verdict::Passed { None } else { Some(each.worst_seed) };
            writeln!(f, "{}", worst.map_or(String::new(), |seed| format!(", worst with seed {seed}")))?;
        }
        Ok(())
    }
}

fn judged(condition: &Condition, sides: &[Vec<f64>], seeds: &[u64], confidence: f64) -> Judged {
    let columns = (0..sides[0].len()).map(|at| {
        let column: Vec<f64> = sides.iter().map(|values| values[at]).collect();
        verdict::mean(&column, confidence)
    });
    let mut columns = columns.collect::<Vec<_>>().into_iter();
    let relation = condition.relation.text();
    Judged {
        condition: condition.text.clone(),
        verdict: verdict::judge(relation, sides, confidence),
        measured: columns.next().expect("a condition has a left side"),
        bounds: columns.collect(),
        worst_seed: seeds[verdict::worst(relation, sides)],
    }
}

struct Known<'a>(&'a engine::Scenario, bool);

impl Metrics for Known<'_> {
    fn lacks(&self, name: &str) -> Option<String> {
        run::lacks(self.0, name, self.1)
    }

    fn unit(&self, name: &str) -> &'static str {
        keys::unit(name)
    }

    fn names(&self) -> Vec<String> {
        measurable(self.0, self.1).into_iter().map(|it| it.name).collect()
    }
}

/// The conditions with their windows, or all problems with them.
fn conditions(scenario: &Scenario, expect: &Expect) -> Result<Vec<(Condition, Window)>, Error> {
    let mut out = Vec::new();
    let mut problems = Vec::new();
    let latest = scenario.engine.duration_ps;
    for (number, each) in expect.conditions.iter().enumerate() {
        let (from, until) = (each.from.or(expect.from), each.until.or(expect.until));
        let (from, until) = (from.map(|span| span.0), until.map(|span| span.0));
        let mut wrong = |message: String, fix: String| {
            problems.push(Problem { field: format!("expect.conditions[{number}]"), message, fix, at: None });
        };
        if from.max(until).is_some_and(|end| end > latest) || from == Some(latest) {
            let fix = format!("The run ends at {} s.", scenario.duration_s());
            wrong("the window of time lies beyond the run".into(), fix);
            continue;
        }
        let seconds = |ps: u64| ps as f64 / 1e12;
        let window = Window { start_s: from.map(seconds), end_s: until.map(seconds) };
        let is_window = window != Window::WHOLE;
        let known = Known(&scenario.engine, is_window);
        match Condition::parse(&each.holds.0, &known, expect.baseline.is_some(), is_window) {
            Ok(condition) => out.push((condition, window)),
            Err(error) => {
                wrong(format!("at character {}: {}", error.at + 1, error.problem), format!("{}.", error.fix));
            }
        }
    }
    if problems.is_empty() { Ok(out) } else { Err(Error::of(problems)) }
}

/// The same scenario with the baseline's algorithm.
fn baseline(scenario: &Scenario, expect: &Expect) -> Result<Option<engine::Scenario>, Error> {
    let Some(named) = &expect.baseline else { return Ok(None) };
    let mut out = scenario.engine.clone();
    let tcp: Vec<&str> =
        scenario.engine.flows.iter().filter(|flow| flow.tcp.is_some()).map(|flow| &*flow.name).collect();
    let chosen: Vec<&str> = match &expect.baseline_flows {
        Names::All => tcp.clone(),
        Names::Of(names) => names.iter().map(String::as_str).collect(),
    };
    if let Some(number) = chosen.iter().position(|name| !tcp.contains(name)) {
        let field = format!("expect.baseline_flows[{number}]");
        let message = format!("there is no flow over TCP called \"{}\"", chosen[number]);
        return Err(Error::one(&field, message, format!("There are: {}.", tcp.join(", "))));
    }
    let mut params = engine::Params::new();
    for (key, node) in &named.params.0 {
        let Ok(value) = serde_json::from_str(&text::to_json(node)) else {
            let field = format!("expect.baseline.{key}");
            return Err(Error::one(&field, "this is no parameter", "Write a number, a name or a switch."));
        };
        params.insert(key.clone(), value);
    }
    for flow in &mut out.flows {
        if let Some(spec) = flow.tcp.as_mut().filter(|_| chosen.contains(&flow.name.as_str())) {
            spec.cc = named.name.to_string();
            spec.cc_params = params.clone();
            // Keep the turns, so that each can be compared with its counterpart.
            for turn in &mut spec.cc_turns {
                turn.cc.clone_from(&spec.cc);
                turn.cc_params.clone_from(&params);
            }
        }
    }
    if let Err(error) = Simulation::build_hosting(&out, &Makers::new(), &scenario.hosted.0) {
        return Err(Error::one("expect.baseline", error.problem, error.fix));
    }
    Ok(Some(out))
}
