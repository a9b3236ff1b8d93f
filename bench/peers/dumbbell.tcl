# One bottleneck in ns-2, as in the other two programs of the comparison (see compare.py): senders at one end, receivers
# at the other, no further links, so that ns-2 has the least to do.
#
#   ns dumbbell.tcl RATE_BPS RTT_MS QUEUE_PACKETS FLOWS VOIP(0|1) DURATION_S OBSERVE(0|1) [ALGORITHM LOSS]
#
# With ALGORITHM it is Linux's of that name (Agent/TCP/Linux), and the wire loses each packet with probability LOSS.
#
# Prints one line of JSON. With OBSERVE the queue is monitored, which costs time; the timed run goes without.

lassign $argv rate rtt limit count voip duration observe algorithm loss

# Ten segments first and SACK, as Linux does. 1448 bytes of payload and 52 of headers: IP packets of 1500 bytes.
Agent/TCP set windowInit_ 10
Agent/TCP set window_ 1000000
Agent/TCP set packetSize_ 1448
Agent/TCP set tcpip_base_hdr_size_ 52
Agent/TCP set minrto_ 0.2
Agent/Ping set packetSize_ 200

set ns [new Simulator]
# Trace files are off by default; only headers in use are carried.
set left [$ns node]
set right [$ns node]
$ns simplex-link $left $right $rate [expr {$rtt / 2.0}]ms DropTail
$ns simplex-link $right $left $rate [expr {$rtt / 2.0}]ms DropTail
$ns queue-limit $left $right $limit
$ns queue-limit $right $left 1000000

if {$algorithm ne ""} {
    set wire [new ErrorModel]
    $wire set rate_ $loss
    $wire unit packet
    $wire ranvar [new RandomVariable/Uniform]
    $wire drop-target [new Agent/Null]
    $ns link-lossmodel $wire $left $right
}

set senders {}
for {set i 0} {$i < $count} {incr i} {
    set tcp [new [expr {$algorithm eq "" ? "Agent/TCP/Sack1" : "Agent/TCP/Linux"}]]
    # Delayed acknowledgements, one for two segments, as the receivers of the other two.
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $ns attach-agent $left $tcp
    $ns attach-agent $right $sink
    $ns connect $tcp $sink
    $tcp set fid_ $i
    if {$algorithm ne ""} { $ns at 0 "$tcp select_ca $algorithm" }
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [expr {double($i) / $count}] "$ftp start"
    lappend senders $tcp
}

# ns-2's UDP receivers report no delays. A ping does, there and back; the way back is empty, so its share is known.
set delays {}
set one_way_back [expr {$rtt / 2.0 + 200 * 8e3 / $rate}]
Agent/Ping instproc recv {from rtt} {
    global delays one_way_back
    lappend delays [expr {$rtt - $one_way_back}]
}
if {$voip} {
    set call [new Agent/Ping]
    set answer [new Agent/Ping]
    $ns attach-agent $left $call
    $ns attach-agent $right $answer
    $ns connect $call $answer
    for {set t 0.0} {$t < $duration} {set t [expr {$t + 0.02}]} { $ns at $t "$call send" }
}

if {$observe} {
    set monitor [$ns monitor-queue $left $right ""]
    set integral [new Integrator]
    $monitor set-bytes-integrator $integral
}

proc quantile {values q} {
    set sorted [lsort -real $values]
    return [lindex $sorted [expr {int($q * ([llength $sorted] - 1))}]]
}

proc finish {} {
    global ns senders delays observe monitor integral duration
    set acked 0
    set squares 0.0
    foreach tcp $senders {
        set mine [expr {int([$tcp set ack_]) + 1}]
        incr acked $mine
        set squares [expr {$squares + double($mine) * $mine}]
    }
    # Nothing is acknowledged in the empty run that measures the start-up time; ns-2 traps a division by zero.
    set jain [expr {$squares > 0 ? double($acked) * $acked / ([llength $senders] * $squares) : 0.0}]
    set out "\"data_packets\": $acked, \"jain\": $jain"
    if {$observe} {
        # The sum is up to the last change of the queue.
        append out ", \"dropped\": [$monitor set pdrops_], \"arrived\": [$monitor set parrivals_]"
        append out ", \"backlog_mean_bytes\": [expr {[$integral set sum_] / $duration}]"
    }
    if {[llength $delays]} {
        append out ", \"delay_p50_ms\": [quantile $delays 0.5], \"delay_p95_ms\": [quantile $delays 0.95]"
    }
    puts "{$out}"
    # Straight out: tearing down a million objects is no part of the simulation.
    exit 0
}
$ns at $duration finish
$ns run
