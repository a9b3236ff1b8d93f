# The kernel's path in ns-2.35: one transfer by Agent/TCP/Linux and one call through a DropTail bottleneck.
#
#   ns ns2.tcl ALGORITHM DELAYED_ACK(on|off) SECONDS TRACE_FILE
#
# The trace has every event of the bottleneck's queue; Python does the arithmetic.

set algorithm [lindex $argv 0]
set delayed [lindex $argv 1]
set seconds [lindex $argv 2]
set trace_file [lindex $argv 3]

set ns [new Simulator]
set sender [$ns node]
set left [$ns node]
set right [$ns node]
set receiver [$ns node]

# Limits in bytes: ns-2 compares with queue-limit x mean_pktsize_. The access links never queue.
Queue/DropTail set queue_in_bytes_ true
Queue/DropTail set mean_pktsize_ 1000
$ns duplex-link $sender $left 1Gb 0ms DropTail
$ns duplex-link $left $right 10Mb 40ms DropTail
$ns duplex-link $right $receiver 1Gb 0ms DropTail
$ns queue-limit $left $right 100
$ns queue-limit $right $left 100
$ns queue-limit $sender $left 100000
$ns queue-limit $receiver $right 100000

# 1448 bytes of payload and 52 of headers: 42 here, 10 for the timestamps.
Agent/TCP set tcpip_base_hdr_size_ 42
Agent/TCP set ts_option_size_ 10
# Without a SYN, as if the handshake were over: the RTT of a packet of 40 bytes is no base for one of 1500, and with it
# Vegas keeps its window below the path.
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
set tcp [new Agent/TCP/Linux]
$tcp set timestamps_ true
$tcp set packetSize_ 1448
$tcp set window_ 100000
$tcp set windowInit_ 10
$tcp set minrto_ 0.2
if {$delayed == "on"} {
    Agent/TCPSink/Sack1/DelAck set interval_ 40ms
    set sink [new Agent/TCPSink/Sack1/DelAck]
} else {
    set sink [new Agent/TCPSink/Sack1]
}
$sink set ts_echo_rfc1323_ true
$ns attach-agent $sender $tcp
$ns attach-agent $receiver $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp

set udp [new Agent/UDP]
set null [new Agent/Null]
$ns attach-agent $sender $udp
$ns attach-agent $receiver $null
$ns connect $udp $null
set call [new Application/Traffic/CBR]
$call attach-agent $udp
$call set packetSize_ 200
$call set interval_ 0.02

set trace [open $trace_file w]
$ns trace-queue $left $right $trace

$ns at 0 "$tcp select_ca $algorithm"
$ns at 0 "$call start"
$ns at 0.5 "$ftp start"
$ns at $seconds "close $trace; exit 0"
$ns run
