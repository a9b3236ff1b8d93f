# The ocean link of the study high-speed-harm in ns-2.35: Agent/TCP/Linux beside PackMime's web, an FTP and an HFTP.
#
#   ns ns2_ocean.tcl ALGORITHM RATE_BPS QUEUE_PACKETS ERROR_RATE WEB_RATE SECONDS OVERHEAD_S FROM_S TRACE \
#       "ACCESS_MS:START_S ..." (one for each flow, both ends together)
#
# Ten times a second the trace has: time; packets in the queue, dropped by it, and arrived; bytes it sent; the FTPs'
# last acknowledged packets.

lassign $argv algorithm rate limit errors web seconds overhead from trace_file flows

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right $rate 50ms DropTail
$ns queue-limit $left $right $limit
$ns queue-limit $right $left $limit
foreach {one other} [list $left $right $right $left] {
    set wire [new ErrorModel]
    $wire unit pkt
    $wire set rate_ $errors
    $wire ranvar [new RandomVariable/Uniform]
    $wire drop-target [new Agent/Null]
    $ns lossmodel $wire $one $other
}
set monitor [$ns monitor-queue $left $right ""]

proc host {router ms} {
    global ns rate
    set node [$ns node]
    $ns duplex-link $node $router $rate ${ms}ms DropTail
    $ns queue-limit $node $router 1000000
    $ns queue-limit $router $node 1000000
    return $node
}

Agent/TCP set windowInit_ 2
Agent/TCP set packetSize_ 1000
Agent/TCP set timestamps_ true

proc transfer {kind window ms start} {
    global ns left right
    set tcp [new Agent/TCP/$kind]
    set sink [new Agent/TCPSink/Sack1]
    $sink set ts_echo_rfc1323_ true
    $tcp set window_ $window
    $ns attach-agent [host $left $ms] $tcp
    $ns attach-agent [host $right $ms] $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at $start "$ftp start"
    return $tcp
}

foreach flow $flows {
    lassign [split $flow :] ms start
    set tcp [transfer Linux 100000 [expr $ms / 2.0] $start]
    $tcp set overhead_ $overhead
    $ns at 0 "$tcp select_ca $algorithm"
}
set ftp [transfer Sack1 64 10 $from]
set hftp [transfer Sack1 100000 10 $from]

# Hosts 5 to 15 ms away, evenly, as PackMime draws both ends from its two clouds.
Agent/TCP/FullTcp set segsize_ 1000
foreach {client server share} [list $right $left 1.0 $left $right 0.25] {
    set clouds [new PackMimeHTTP]
    foreach ms {5.5 6.5 7.5 8.5 9.5 10.5 11.5 12.5 13.5 14.5} {
        $clouds set-client [host $client $ms]
        $clouds set-server [host $server $ms]
    }
    $clouds set-rate [expr $web * $share]
    $ns at 0 "$clouds start"
}

set trace [open $trace_file w]
proc sample {} {
    global ns trace monitor ftp hftp
    puts $trace "[$ns now] [$monitor set pkts_] [$monitor set pdrops_] [$monitor set parrivals_]\
        [$monitor set bdepartures_] [$ftp set ack_] [$hftp set ack_]"
    $ns at [expr [$ns now] + 0.1] sample
}
$ns at 0.05 sample
$ns at $seconds "close $trace; exit 0"
$ns run
