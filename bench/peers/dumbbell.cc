// One bottleneck in ns-3, as in the other two programs of the comparison (see compare.py): two nodes, one link.
//
//   dumbbell RATE_BPS RTT_MS QUEUE_PACKETS|0 FLOWS VOIP(0|1) DURATION_S OBSERVE(0|1)
//
// A queue of 0 packets means CoDel with its defaults (target 5 ms, interval 100 ms) above a device that holds one
// packet. Prints one line of JSON. With OBSERVE the queue is watched, which costs time; the timed run goes without.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

// The time integral of the backlog, and what left and was dropped.
struct Watch {
    double byteSeconds = 0, since = 0;
    uint32_t bytes = 0;
    uint64_t dropped = 0, arrived = 0;

    void Backlog(uint32_t, uint32_t now) {
        const double t = Simulator::Now().GetSeconds();
        byteSeconds += bytes * (t - since);
        since = t;
        bytes = now;
    }
} watch;

template <typename Item> void Dropped(Ptr<const Item>) { ++watch.dropped; }
template <typename Item> void Arrived(Ptr<const Item>) { ++watch.arrived; }

std::vector<double> delaysMs;

void Heard(Ptr<const Packet> packet) {
    SeqTsHeader stamp;
    packet->Copy()->RemoveHeader(stamp);
    delaysMs.push_back((Simulator::Now() - stamp.GetTs()).GetSeconds() * 1e3);
}

double Quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(q * (values.size() - 1))];
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 8) {
        std::cerr << "usage: dumbbell RATE_BPS RTT_MS QUEUE_PACKETS|0 FLOWS VOIP DURATION_S OBSERVE\n";
        return 2;
    }
    const std::string rate = std::string(argv[1]) + "bps";
    const double rttMs = std::atof(argv[2]), duration = std::atof(argv[6]);
    const int limit = std::atoi(argv[3]), flows = std::atoi(argv[4]);
    const bool voip = std::atoi(argv[5]), observe = std::atoi(argv[7]);

    // Ten segments first and SACK, as Linux does; windows that never limit. 1448 + 52 bytes: IP packets of 1500.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    // ns-3 walks its scoreboard for each acknowledgement: with thousands of holes, as slow start leaves behind on a
    // gigabit, a simulated second takes minutes. There it is spared them: slow start ends below what the path holds.
    if (limit > 1000) Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(4 << 20));

    NodeContainer nodes(2);
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", StringValue(rate));
    helper.SetChannelAttribute("Delay", TimeValue(Seconds(rttMs / 2e3)));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(limit ? limit : 1) + "p"));
    NetDeviceContainer devices = helper.Install(nodes);
    auto back = DynamicCast<PointToPointNetDevice>(devices.Get(1))->GetQueue();
    back->SetAttribute("MaxSize", StringValue("1000000p"));
    InternetStackHelper().Install(nodes);
    TrafficControlHelper control;
    if (limit == 0) {
        control.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", StringValue("1000p"));
        control.Install(devices.Get(0));
    }
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    // Assigning addresses gives every device without one a queue discipline; the drop-tail queue is the device's.
    TrafficControlHelper plain;
    if (limit != 0) plain.Uninstall(devices.Get(0));
    plain.Uninstall(devices.Get(1));

    std::vector<Ptr<PacketSink>> sinks;
    for (int flow = 0; flow < flows; ++flow) {
        const uint16_t port = 1000 + flow;
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), port));
        sender.SetAttribute("SendSize", UintegerValue(1448));
        sender.Install(nodes.Get(0)).Start(Seconds(double(flow) / flows));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(nodes.Get(1)).Get(0)));
    }
    if (voip) {
        UdpServerHelper server(9);
        auto application = server.Install(nodes.Get(1)).Get(0);
        application->TraceConnectWithoutContext("Rx", MakeCallback(&Heard));
        UdpClientHelper client(interfaces.GetAddress(1), 9);
        client.SetAttribute("Interval", TimeValue(MilliSeconds(20)));
        client.SetAttribute("PacketSize", UintegerValue(172)); // and 28 bytes of headers
        client.SetAttribute("MaxPackets", UintegerValue(0xffffffff));
        client.Install(nodes.Get(0)).Start(Seconds(0));
    }
    if (observe) {
        auto device = DynamicCast<PointToPointNetDevice>(devices.Get(0));
        if (limit == 0) {
            auto disc = nodes.Get(0)->GetObject<TrafficControlLayer>()->GetRootQueueDiscOnDevice(device);
            disc->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&Watch::Backlog, &watch));
            disc->TraceConnectWithoutContext("Drop", MakeCallback(&Dropped<QueueDiscItem>));
            disc->TraceConnectWithoutContext("Enqueue", MakeCallback(&Arrived<QueueDiscItem>));
        } else {
            auto queue = device->GetQueue();
            queue->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&Watch::Backlog, &watch));
            queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&Arrived<Packet>));
            // A full device is not even tried: the layer above drops.
            nodes.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext(
                "TcDrop", MakeCallback(&Dropped<Packet>));
        }
    }

    Simulator::Stop(Seconds(duration));
    Simulator::Run();

    uint64_t received = 0;
    double squares = 0;
    for (const auto& sink : sinks) {
        received += sink->GetTotalRx();
        squares += double(sink->GetTotalRx()) * double(sink->GetTotalRx());
    }
    std::cout << "{\"data_packets\": " << received / 1448
              << ", \"jain\": " << (squares > 0 ? double(received) * double(received) / (flows * squares) : 0.0);
    if (observe) {
        // Dropped at the tail never was enqueued; CoDel's drops at the head were.
        const uint64_t arrived = watch.arrived + (limit ? watch.dropped : 0);
        std::cout << ", \"dropped\": " << watch.dropped
                  << ", \"arrived\": " << arrived << ", \"backlog_mean_bytes\": " << watch.byteSeconds / duration;
    }
    if (!delaysMs.empty())
        std::cout << ", \"delay_p50_ms\": " << Quantile(delaysMs, 0.5) << ", \"delay_p95_ms\": " << Quantile(delaysMs, 0.95);
    std::cout << "}" << std::endl;
    // Straight out: tearing down is no part of the simulation.
    std::_Exit(0);
}
