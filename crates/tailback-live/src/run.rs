//! A live run from beginning to end. Dropping its values removes everything it created, whatever happens.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration as Wait;

use tailback_core::packet::FlowId;
use tailback_core::probe::Table;
use tailback_core::probe::rows::{FlowRow, Flows, Packets, StackStates, links};
use tailback_core::scenario::{FlowSpec, Scenario};
use tailback_core::time::{Duration, Time};

use crate::affinity::Affinity;
use crate::applications::flow_record::{self, FlowRecord};
use crate::applications::{self, FlowState, TcpPlan};
use crate::arrivals;
use crate::bpf::namespace_number;
use crate::clock::Clock;
use crate::counters;
use crate::demands::{self, Kernel, Manner, Place, Plan, Work};
use crate::emulator::{Emulated, Emulator, Port, Shared};
use crate::error::{Doing, LiveError};
use crate::headers::addresses;
use crate::host::Host;
use crate::internals::{self, Reader};
use crate::kernel_queue::KernelQueue;
use crate::lease::{self, Lease};
use crate::path::{Path, Poll};
use crate::programs;
use crate::programs::order::Progress;
use crate::programs::rows::{self, Report};
use crate::punctuality::{self, Limits, Missing, Service};
use crate::sightings::Sightings;
use crate::stamps::{self, Stamps};
use crate::sys;
use crate::tables;
use crate::tcp_log::{self, Row, TcpLog, ticks_a_second};
use crate::twins::{self, Registered, Source};
use crate::watch::{self, TcpPoll};

/// Time between the end of preparation and time zero.
const LEAD: Duration = Duration::from_ms(20);
/// Interval between visits to the caller.
const BETWEEN_VISITS: Wait = Wait::from_millis(100);
/// The share of the run reported at time zero. It differs from what is reported while servers start, so that the host of
/// a guest knows from when on progress is to be expected.
const BEGUN: f64 = 1e-6;
/// Longest poll interval if, without the state log, congestion events are derived from polls.
const FALLBACK_POLL: Duration = Duration::from_ms(1);

/// Part of the kernel name of a user's congestion control, after the run's mark.
const OWN: &str = "own";

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The simulator's tables, plus `emulator`, `captures` and, if there were any, `programs`.
    pub tables: Vec<Table>,
    /// The words that column `name` of table `internals` indexes.
    pub internals_names: Vec<&'static str>,
    /// Output of programs, with names such as `download/client.out`.
    pub files: Vec<(String, Vec<u8>)>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Each flow's congestion controls, in turn, and who wrote each ([`Source::name`]).
    pub controls: Vec<Vec<(String, &'static str)>>,
    /// The kernel's own counters of each host, by name (`counters::of_host`).
    pub counters: Vec<(String, Vec<(String, i64)>)>,
    /// Whether the run was punctual enough for its result to be valid.
    pub is_fit: bool,
}

/// Runs the scenario live. `visit(fraction)` is called ten times a second; its error ends the run.
pub fn run<E: From<LiveError>>(
    scenario: &Scenario,
    visit: impl FnMut(f64) -> Result<(), E>,
) -> Result<Outcome, E> {
    run_as(scenario, &Manner::default(), visit)
}

/// Like [`run`], with these options.
pub fn run_as<E: From<LiveError>>(
    scenario: &Scenario,
    manner: &Manner<'_>,
    mut visit: impl FnMut(f64) -> Result<(), E>,
) -> Result<Outcome, E> {
    let mut plan = demands::plan(scenario, manner)?;
    sys::raise_file_limit();
    let lease = if matches!(manner.place, Place::Alone) { Lease::alone()? } else { Lease::take()? };
    let mut twins = register(&mut plan, &lease, scenario.instruments.internals)?;
    let mut hosts = Vec::new();
    for (name, settings) in &plan.hosts {
        hosts.push(Host::make(name, lease.mark(), settings)?);
    }
    let mut notes = Vec::new();
    let mtu = plan.hosts.iter().map(|(_, settings)| settings.mtu).max().unwrap_or(0);
    let queues: Result<Vec<_>, _> =
        plan.queues.iter().map(|wanted| KernelQueue::make(wanted, lease.mark(), mtu)).collect();
    let queues = queues?;
    let numbers = numbers(hosts.iter().map(Host::namespace))?;
    let mut readers: Vec<Reader> = twins.iter_mut().filter_map(|twin| twin.shows.take()).collect();
    if scenario.instruments.internals {
        readers.extend(readers_of_kernel(&plan, &numbers, &mut notes));
    }
    let with_sent = !scenario.instruments.segments.is_empty();
    let log = TcpLog::attach(&numbers, with_sent)
        .or_else(|error| {
            // Some kernels' verifiers reject reading the state behind an outgoing packet.
            let without = if with_sent { TcpLog::attach(&numbers, false) } else { Err(error) };
            without.inspect(|_| notes.push("the state log has no rows for segments sent".into()))
        })
        .map_err(|error| notes.push(format!("no state log, polling instead: {error}")))
        .ok();
    let devices = numbers.iter().copied().chain(self::numbers(queues.iter().map(KernelQueue::namespace))?);
    let stamps = Stamps::attach(&devices.collect::<Vec<_>>())
        .map_err(|error| notes.push(format!("packets count as sent when they are read: {error}")))
        .ok();
    let states: Vec<FlowState> = plan.flows.iter().map(|_| FlowState::default()).collect();
    let made = (&hosts[..], queues);
    let seen = in_threads(scenario, &mut plan, &lease, made, &states, (log, stamps, readers), &mut visit)?;
    let outcome = collect(scenario, &plan, &hosts, seen, notes)?;
    drop(states);
    drop(hosts);
    drop(twins);
    visit(1.0)?;
    Ok(outcome)
}

/// Keys and objects of the BPF programs that a run of this scenario loads on a machine of its own.
pub fn programs(
    scenario: &Scenario,
    kernel: &Kernel,
    manner: &Manner<'_>,
) -> Result<Vec<(String, Vec<u8>)>, LiveError> {
    let plan = demands::plan(scenario, &Manner { place: Place::Elsewhere(kernel), ..*manner })?;
    let hosts = plan.hosts.len();
    let shows = scenario.instruments.internals;
    let (mut recipes, mut objects) = (Vec::new(), Vec::new());
    for (number, control) in plan.controls.iter().enumerate() {
        match &control.source {
            Source::Twin(macros) => {
                let name = twins::kernel_name(lease::ALONE, number, &control.cc);
                recipes.push(twins::recipe(&control.cc, macros, &name, kernel.hz, shows));
            }
            Source::Kernel => {
                recipes.extend(internals::recipe_of_kernel(&control.cc, hosts).filter(|_| shows));
            }
            Source::Candidate(source) => {
                let name = twins::kernel_name(lease::ALONE, number, OWN);
                objects.push((twins::candidate_key(number), twins::compile_candidate(source, &name)?));
            }
            Source::Module(_) => {}
        }
    }
    recipes.extend(tcp_log::recipes(hosts));
    recipes.push(stamps::recipe(hosts + plan.queues.len()));
    for recipe in recipes {
        objects.push((recipe.key(), recipe.compile()?));
    }
    Ok(objects)
}

/// Registers the twins that the plan needs in the kernel, and puts their names into the plan.
fn register(plan: &mut Plan, lease: &Lease, shows: bool) -> Result<Vec<Registered>, LiveError> {
    let mut twins = Vec::new();
    let mut names = Vec::new();
    for (number, control) in plan.controls.iter().enumerate() {
        match &control.source {
            Source::Kernel => names.push(twins::name_in_kernel(&control.cc).to_owned()),
            Source::Module(registered) => names.push(registered.clone()),
            Source::Twin(macros) => {
                let name = twins::kernel_name(lease.mark(), number, &control.cc);
                let registered = twins::register(&control.cc, macros, &name, shows, plan.is_alone)?;
                names.push(registered.name.clone());
                twins.push(registered);
            }
            Source::Candidate(source) => {
                let name = twins::kernel_name(lease.mark(), number, OWN);
                let registered = twins::register_candidate(source, number, &name, plan.is_alone)?;
                names.push(registered.name.clone());
                twins.push(registered);
            }
        }
    }
    for (flow, controls) in plan.flows.iter_mut().zip(&plan.controls_of) {
        if let Some(TcpPlan { turns, .. }) = flow.tcp() {
            *turns = controls.iter().map(|control| names[*control].clone()).collect();
        }
        if let Work::Programs(programs) = flow {
            let routes = plan.hosts.iter_mut().flat_map(|(_, host)| &mut host.routes);
            for route in routes.filter(|route| route.flow == programs.number) {
                route.congestion = Some(programs.tcp.turns[0].clone());
            }
        }
    }
    Ok(twins)
}

/// Readers for those of the kernel's own congestion controls that can be read; a note says why the others cannot.
fn readers_of_kernel(plan: &Plan, hosts: &[u64], notes: &mut Vec<String>) -> Vec<Reader> {
    let own = plan.controls.iter().filter(|control| control.source == Source::Kernel);
    let readers = own.filter(|control| internals::has_any(&control.cc)).map(|control| {
        Reader::of_kernel(&control.cc, hosts)
            .map_err(|error| notes.push(format!("no internals of {}: {error}", control.cc)))
            .ok()
    });
    readers.flatten().collect()
}

fn numbers<'a>(hosts: impl Iterator<Item = BorrowedFd<'a>>) -> Result<Vec<u64>, LiveError> {
    let numbers: Result<_, _> = hosts.map(namespace_number).collect();
    numbers.doing("asking for a host's number")
}

/// What the threads of a run recorded.
struct Seen {
    clock: Clock,
    emulated: Emulated,
    tcp_polls: Vec<TcpPoll>,
    /// Records of each flow's applications or programs.
    records: Vec<FlowRecord>,
    reports: Vec<Report>,
    log: Option<(Vec<Row>, u64)>,
    /// Internal quantities of the congestion controls.
    shown: internals::Followed,
}

fn in_threads<E: From<LiveError>>(
    scenario: &Scenario,
    plan: &mut Plan,
    lease: &Lease,
    (hosts, queues): (&[Host], Vec<KernelQueue>),
    states: &[FlowState],
    (log, stamps, readers): (Option<TcpLog>, Option<Stamps>, Vec<Reader>),
    visit: &mut impl FnMut(f64) -> Result<(), E>,
) -> Result<Seen, E> {
    let wanted = &scenario.instruments;
    let interval = Duration::from_ps(wanted.poll_interval_ps);
    let from = Time::from_ps(wanted.from_ps);
    let until = wanted.until_ps.map_or(plan.end, Time::from_ps).min(plan.end);
    let numbered = |names: &[String], all: &mut dyn Iterator<Item = &String>| -> Vec<u32> {
        all.enumerate().filter(|(_, name)| names.contains(name)).map(|(number, _)| number as u32).collect()
    };
    let polled_links = numbered(&wanted.queue_polls, &mut scenario.links.iter().map(|link| &link.name));
    let poll = if polled_links.is_empty() {
        Poll::never()
    } else {
        Poll { interval, next: from.ceil_to(interval), links: polled_links }
    };
    let mut polled = numbered(&wanted.polls, &mut scenario.flows.iter().map(|flow| &flow.name));
    let mut poll_interval = interval;
    if log.is_none() {
        polled = numbered_tcp(scenario);
        poll_interval = if interval.is_zero() { FALLBACK_POLL } else { interval.min(FALLBACK_POLL) };
    }

    let watcher = tables::watcher(scenario).map_err(LiveError::from)?;
    let path = Path::build(scenario, watcher, poll).map_err(LiveError::from)?;
    let mut ports = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let ending = |which: usize| -> Vec<u32> {
            let here = plan.ends.iter().enumerate().filter(|(_, ends)| ends[which] == number);
            here.map(|(flow, _)| flow as u32).collect()
        };
        let tun = host.tun().share().doing("sharing a device")?;
        ports.push(Port { tun, from: ending(0), to: ending(1) });
    }
    for queue in &queues {
        let tun = queue.tun().share().doing("sharing a device")?;
        ports.push(Port { tun, from: Vec::new(), to: Vec::new() });
    }
    let shared = Shared {
        stop: AtomicBool::new(false),
        duplicate_acks: plan.flows.iter().map(|_| AtomicU64::new(0)).collect(),
    };
    let (models, programs) = prepare(plan, lease, hosts, states)?;
    let end = plan.end;
    let plan_is_alone = plan.is_alone;
    let affinity = Affinity::share_out();
    // The log continues until everything else has ended.
    let log_stop = AtomicBool::new(false);

    thread::scope(|scope| {
        let shared = &shared;
        let (is_ready, ready) = mpsc::channel();
        let mut signs = Vec::new();
        let mut running: Vec<_> = Vec::new();
        for flow in programs {
            let (go, started) = mpsc::channel();
            let is_ready = is_ready.clone();
            signs.push(go);
            running.push(scope.spawn(move || {
                let (record, report) = flow.run(&is_ready, &started, end, &shared.stop)?;
                Ok((record, Some(report)))
            }));
        }
        if let Err(error) = programs::await_all(&ready, signs.len(), visit).and_then(|()| visit(BEGUN)) {
            // Without a start signal the other servers end too.
            shared.stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let clock = Clock::starting_in(LEAD);
        let emulator = Emulator::new(path, ports, clock, end).at(affinity.emulator());
        let emulator = emulator.trusting_timers(plan_is_alone).with(stamps).through(queues);
        for go in signs {
            let _ = go.send(clock);
        }
        let emulating = scope.spawn(move || emulator.run(shared));
        let logging = log.map(|log| scope.spawn(|| log.follow(&log_stop)));
        let showing = (!readers.is_empty()).then(|| scope.spawn(|| internals::follow(readers, &log_stop)));
        let polling = (!polled.is_empty()).then(|| {
            let polled = &polled;
            scope.spawn(move || {
                watch::follow(polled, states, shared, clock, (from, until), poll_interval, &shared.stop)
            })
        });
        running.extend(models.into_iter().map(|flow| {
            scope.spawn(move || flow.run(clock, end, &shared.stop).map(|record| (record, None)))
        }));

        let mut ended: Result<(), E> = Ok(());
        while clock.now() < end {
            thread::sleep(clock.until(end).min(BETWEEN_VISITS));
            let has_failed = emulating.is_finished() && clock.now() < end
                || running.iter().any(|flow| flow.is_finished() && clock.now() < end);
            if has_failed {
                break;
            }
            let fraction = clock.now().as_ps() as f64 / end.as_ps() as f64;
            if let Err(error) = visit(fraction.clamp(BEGUN, 1.0)) {
                ended = Err(error);
                break;
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
        let flows: Result<Vec<(FlowRecord, Option<Report>)>, LiveError> =
            running.into_iter().map(|flow| flow.join().unwrap_or_else(|_| Err(panicked("a flow")))).collect();
        let emulated = emulating.join().unwrap_or_else(|_| Err(panicked("the emulator")));
        let tcp_polls = polling.map(|polling| polling.join().map_err(|_| panicked("the poll"))).transpose();
        log_stop.store(true, Ordering::Relaxed);
        let log = logging.map(|logging| logging.join().map_err(|_| panicked("the state log"))).transpose();
        let shown = showing.map(|showing| showing.join().map_err(|_| panicked("the internals"))).transpose();
        ended?;
        let mut flows = flows?;
        flows.sort_by_key(|(record, _)| record.flow());
        let (records, reports): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
        let reports = reports.into_iter().flatten().collect();
        let (emulated, tcp_polls, log) = (emulated?, tcp_polls?.unwrap_or_default(), log?);
        let shown = shown?.unwrap_or_default();
        Ok(Seen { clock, emulated, tcp_polls, records, reports, log, shown })
    })
}

fn numbered_tcp(scenario: &Scenario) -> Vec<u32> {
    let flows = scenario.flows.iter().enumerate();
    let is_tcp = |flow: &FlowSpec| flow.tcp.as_ref().is_some_and(|tcp| tcp.transport.is_none());
    flows.filter(|(_, flow)| is_tcp(flow)).map(|(number, _)| number as u32).collect()
}

/// Prepares what flows need before they start: sockets, and folders for programs.
fn prepare<'a>(
    plan: &mut Plan,
    lease: &Lease,
    hosts: &[Host],
    states: &'a [FlowState],
) -> Result<(Vec<applications::Ready<'a>>, Vec<programs::Ready>), LiveError> {
    let (mut models, mut all, mut folder) = (Vec::new(), Vec::new(), None);
    let progress: Arc<[Progress]> = plan.flows.iter().map(|_| Progress::default()).collect();
    for (number, (work, ends)) in std::mem::take(&mut plan.flows).into_iter().zip(&plan.ends).enumerate() {
        let [from, to] = ends.map(|end| hosts[end].namespace());
        match work {
            Work::Model(flow) => models.push(applications::prepare(flow, from, to, &states[number])?),
            Work::Programs(flow) => {
                let share =
                    |host: std::os::fd::BorrowedFd<'_>| host.try_clone_to_owned().doing("sharing a host");
                let folder = match &folder {
                    Some(folder) => folder,
                    None => folder.insert(lease.folder()?),
                };
                all.push(programs::prepare(flow, [share(from)?, share(to)?], folder, &progress)?);
            }
        }
    }
    Ok((models, all))
}

fn panicked(who: &str) -> LiveError {
    LiveError::Failed(format!("broken invariant in {who}; its message is on standard error"))
}

fn collect(
    scenario: &Scenario,
    plan: &Plan,
    hosts: &[Host],
    mut seen: Seen,
    mut notes: Vec<String>,
) -> Result<Outcome, LiveError> {
    let flows = scenario.flows.len();
    let lost_rows = seen.log.as_ref().map_or(0, |(_, lost)| *lost);
    let rows = seen.log.take().map(|(rows, _)| owned(rows, flows));
    let (mut congestion, events) = match &rows {
        Some(rows) => tables::congestion(rows, &plan.crowds, &unseen(plan), seen.clock),
        None => tables::congestion_from_polls(&seen.tcp_polls, &plan.crowds),
    };
    let wanted = &scenario.instruments;
    let chosen = |names: &[String]| -> Vec<bool> {
        scenario.flows.iter().map(|flow| names.contains(&flow.name)).collect()
    };
    let logged = chosen(&wanted.segments);
    let segments = match &rows {
        Some(rows) => {
            let all: Vec<Row> = rows.iter().map(|(_, _, row)| *row).collect();
            tables::segments(rows, &logged, seen.clock, ticks_a_second(&all))
        }
        None => tables::segments_from_polls(&seen.tcp_polls, &logged),
    };
    let polled = chosen(&wanted.polls);
    seen.tcp_polls.retain(|poll| polled[poll.flow as usize]);
    let mut polls = tables::polls(&seen.tcp_polls);
    let interval = Duration::from_ps(wanted.poll_interval_ps);
    let until = wanted.until_ps.map_or(plan.end, Time::from_ps).min(plan.end);
    let grid = (Time::from_ps(wanted.from_ps).ceil_to(interval), until, interval);
    let (shown, internals_names) = internals::table(&seen.shown, &polled, grid, seen.clock);
    if let Some(rows) = &rows {
        tables::add_rtt(&mut polls, rows, seen.clock);
        arrivals::add_arrivals(&mut polls, rows, seen.clock);
        // Programs' sockets are not ours to query, so use the latest state in the log.
        for report in seen.reports.iter().filter(|report| polled[report.flow as usize]) {
            tables::add_from_log(&mut polls, rows, report.flow, grid, seen.clock);
        }
    }

    // States reported by foreign stacks: the kernel sees only their datagrams.
    let mut stack_states = StackStates::default();
    for record in &mut seen.records {
        record.congestion.drain(..).for_each(|row| congestion.push(row));
        record.polls.drain(..).for_each(|row| polls.push(row));
        record.states.drain(..).for_each(|row| stack_states.push(row));
    }

    let mut faults = Vec::new();
    for (number, record) in seen.records.iter_mut().enumerate() {
        faults.extend(record.fault.take().map(|(connections, fault)| (number as u32, connections, *fault)));
    }
    notes.extend(faults.iter().map(|(_, _, fault)| fault.sentence()));
    notes.extend(seen.records.iter_mut().filter_map(|record| record.failures.take()));
    let may_damage = scenario.links.iter().any(|link| link.wire.corrupt > 0.0);
    let receiver_drops = may_damage.then(|| seen.emulated.path.receiver_drops.table());
    let faults = (!faults.is_empty()).then(|| tailback_core::engine::stack_faults(&faults));

    let mut device_drops = seen.records.iter().map(|record| record.socket_drops).sum();
    for host in hosts {
        device_drops += host.device_drops().doing("counting a device's drops")?;
    }
    let counters: Result<Vec<_>, LiveError> =
        hosts.iter().map(|host| Ok((host.name.clone(), counters::of_host(host)?))).collect();
    let links = links(seen.emulated.path.links());
    for queue in &mut seen.emulated.queues {
        let broken = queue.broken_rule(plan.end).doing("asking the queue what waits in it")?;
        if let Some(rule) = broken {
            let field = format!("links[{}].queue.discipline", queue.wanted.link);
            let fix = format!("Correct the queue at link {}", queue.wanted.name);
            return Err(LiveError::refuse(field, format!("{:?}", queue.wanted.discipline.name), rule, fix));
        }
        let unseen = queue.unseen().doing("asking the kernel's queue what it has counted")?;
        if unseen != 0 {
            let (name, link) = (&queue.wanted.discipline.name, &queue.wanted.name);
            let than = if unseen > 0 { "more" } else { "fewer" };
            notes.push(format!("{name} at {link} counts {} {than} drops than were seen", unseen.abs()));
        }
    }
    let captures = tables::captures(&seen.emulated);
    let flow_table = flow_table(scenario, &seen, &events);
    let requests = flow_record::requests(seen.records.iter());
    let echoes = flow_record::echoes(seen.records.iter());
    let tables::Watcher { recorder: mut record, sightings } =
        std::mem::take(&mut seen.emulated.path.observer);
    name_streams(&mut record.packets, &seen.records);
    let limits = Limits { most: plan.lateness_limit, rtt_least: plan.rtt_least };
    let missing = Missing { device_drops, log_rows: lost_rows };
    let mut service = Service::default();
    seen.records.iter().for_each(|record| service.add(&record.service));
    let (emulator, wrong, is_fit) = punctuality::judge(&seen.emulated.punctuality, &service, limits, missing);
    notes.extend(wrong);
    notes.extend(seen.reports.iter_mut().flat_map(|report| std::mem::take(&mut report.notes)));
    let named = |number: &usize| (plan.controls[*number].cc.clone(), plan.controls[*number].source.name());
    let controls = plan.controls_of.iter().map(|numbers| numbers.iter().map(named).collect()).collect();
    let programs = (!seen.reports.is_empty()).then(|| rows::table(&seen.reports));
    Ok(Outcome {
        controls,
        counters: counters?,
        tables: programs
            .into_iter()
            .chain([
                flow_table.into_table(),
                links.into_table(),
                congestion.into_table(),
                emulator,
                segments.into_table(),
                stack_states.into_table(),
                polls.into_table(),
                shown.into_table(),
                record.queue.into_table(),
                record.queue_polls.into_table(),
                record.packets.into_table(),
                captures.into_table(),
                requests,
                echoes,
            ])
            .chain(receiver_drops)
            .chain(faults)
            .chain(sightings.into_iter().flat_map(Sightings::tables))
            .collect(),
        internals_names,
        files: rows::outputs(seen.reports),
        notes,
        is_fit,
    })
}

/// Whether each flow's congestion control reduces the window without the kernel's knowledge.
fn unseen(plan: &Plan) -> Vec<bool> {
    let is_unseen = |control: &usize| {
        let control = &plan.controls[*control];
        matches!(control.source, Source::Twin(_)) && twins::reduces_unseen(&control.cc)
    };
    plan.controls_of.iter().map(|controls| controls.iter().any(is_unseen)).collect()
}

/// Each row with its flow, and whether it belongs to the receiver's end.
fn owned(rows: Vec<Row>, flows: usize) -> Vec<(u32, bool, Row)> {
    let owner = |row: &Row| {
        let [_, x, y, _] = row.local.octets();
        let flow = u32::from(x) << 8 | u32::from(y);
        let [near, far] = addresses(flow);
        let is_known = (flow as usize) < flows && (row.local == near || row.local == far);
        is_known.then_some((flow, row.local == far))
    };
    rows.into_iter()
        .filter_map(|row| owner(&row).map(|(flow, at_receiver)| (flow, at_receiver, row)))
        .collect()
}

/// Sets the stream of each packet. Datagrams reach the path in the order they were sent, so a packet's index within its
/// flow determines its stream.
fn name_streams(packets: &mut Packets, records: &[FlowRecord]) {
    for row in 0..packets.flow.len() {
        let streams = &records[packets.flow[row] as usize].streams;
        packets.stream[row] = streams.get(packets.index[row] as usize).copied().unwrap_or(0);
    }
}

fn flow_table(scenario: &Scenario, seen: &Seen, events: &[tables::Events]) -> Flows {
    let start = |flow: usize| {
        let spread = Duration::from_ps(scenario.randomness.start_spread_ps);
        let name = format!("flow/{}/start", scenario.flows[flow].name);
        let shift = tailback_core::rng::Stream::named(scenario.seed, &name).duration_up_to(spread);
        Time::from_ps(scenario.flows[flow].start_ps) + shift
    };
    let row = |flow: usize| {
        let (count, tally) = (&seen.emulated.path.counts[flow], &seen.records[flow].tally);
        let is_tcp = scenario.flows[flow].tcp.is_some();
        FlowRow {
            flow: FlowId(flow as u32),
            packets_sent: count.packets_sent,
            packets_received: count.packets_received,
            packets_dropped: count.packets_dropped,
            bytes_sent: count.bytes_sent,
            bytes_acked: tally.bytes_acked,
            // For datagrams include the replies, as the simulator does.
            bytes_received: match is_tcp {
                true => tally.bytes_received,
                false => count.bytes_received + tally.bytes_returned,
            },
            segments_sent: tally.sent.segments,
            segments_retransmitted: tally.sent.retransmitted,
            recoveries: events[flow].recoveries + tally.recoveries,
            timeouts: events[flow].timeouts,
            undos: events[flow].undos,
            started_s: start(flow).as_secs_f64(),
            established_s: tables::seconds(tally.established),
            finished_s: tables::seconds(tally.finished),
            rtt_min_s: tables::least_rtt(tally.rtt_us_min),
            srtt_s: tables::micro(tally.srtt_us),
            connections: tally.connections,
            connections_failed: tally.failed,
            connections_open: tally.open,
            bytes_returned: if is_tcp { tally.bytes_returned } else { 0 },
            back_segments_sent: tally.back.segments,
            back_segments_retransmitted: tally.back.retransmitted,
        }
    };
    (0..scenario.flows.len()).map(row).collect()
}
