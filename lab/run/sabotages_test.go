// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/kernel/rtnl"
)

const short = 150 * time.Millisecond

// sabotages start 400 ms after the flow. The reason must be the first one, or among all.
var sabotages = []struct {
	name   string
	do     func(s *saboteur)
	reason string
}{
	// Offloads
	{"checksums left to the device", func(s *saboteur) { s.in("a", "ethtool -K path tx on") }, "a: offload tx-checksum-ip-generic of path was off and is on"},
	{"TSO on", func(s *saboteur) { s.in("a", "ethtool -K path tx on sg on tso on") }, "a: offload tx-checksum-ip-generic of path was off and is on"},
	{"TSO on and off", func(s *saboteur) {
		s.in("a", "ethtool -K path tx on tso on")
		s.wait(short)
		s.in("a", "ethtool -K path tso off tx off")
	}, "a: offloads of path was changed during the run"},
	{"GSO on", func(s *saboteur) { s.in("a", "ethtool -K path gso on") }, "a: offload tx-generic-segmentation of path was off and is on"},
	{"GRO off at the receiver", func(s *saboteur) { s.in("b", "ethtool -K path gro off") }, "b: offload rx-gro of path was on and is off"},
	{"largest GSO", func(s *saboteur) { s.in("a", "ip link set path gso_max_segs 2") }, "a: device path: largest GSO in segments was"},
	{"receive steering", func(s *saboteur) { s.command("b", "1", "tee", "/sys/class/net/path/queues/rx-0/rps_cpus") }, "b: device path: queues/rx-0/rps_cpus was"},
	{"GRO timer", func(s *saboteur) { s.command("b", "900000", "tee", "/sys/class/net/path/gro_flush_timeout") }, "b: device path: gro_flush_timeout was 0 and is 900000"},
	// Queues and traffic control
	{"short queue at the sender", func(s *saboteur) { s.in("a", "tc qdisc replace dev path root pfifo limit 2") }, "of path at root: options was 0xe8030000 and is 0x02000000"},
	{"TBF at the sender", func(s *saboteur) {
		s.in("a", "tc qdisc replace dev path root tbf rate 30mbit burst 20kb latency 50ms")
	}, "a: device path: qdisc was pfifo and is tbf"},
	{"TBF at the sender, then removed", func(s *saboteur) {
		s.in("a", "tc qdisc replace dev path root tbf rate 10mbit burst 20kb latency 50ms")
		s.wait(short)
		s.in("a", "tc qdisc replace dev path root pfifo limit 1000")
	}, "of path at root"},
	{"no queue at the sender", func(s *saboteur) { s.in("a", "tc qdisc del dev path root") }, "of path at root"},
	{"TBF inside the links", func(s *saboteur) {
		s.in("links", "tc qdisc replace dev l0b root tbf rate 20mbit burst 20kb latency 50ms")
	}, "the links' namespace: qdisc"},
	{"filter at the receiver", func(s *saboteur) {
		s.in("b", "tc qdisc add dev path clsact")
		s.in("b", "tc filter add dev path ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev lo")
	}, "b: filter"},
	{"queue length", func(s *saboteur) { s.in("a", "ip link set path txqueuelen 2") }, "a: device path: queue length was 1000 and is 2"},
	// Packet filters
	{"nftables drop 1 % of sent packets", func(s *saboteur) {
		s.filter("a", "table ip x { chain o { type filter hook output priority 0; numgen random mod 100 < 1 drop; }; }")
	}, "a: nftables rules was generation"},
	{"nftables drop at the receiver, then removed", func(s *saboteur) {
		s.filter("b", "table ip x { chain i { type filter hook input priority 0; numgen random mod 20 < 1 drop; }; }")
		s.wait(short)
		s.filter("b", "delete table ip x")
	}, "b: nftables rules was generation"},
	{"iptables-legacy drop", func(s *saboteur) {
		s.in("a", "iptables-legacy -A OUTPUT -m statistic --mode random --probability 0.01 -j DROP")
	}, "a: iptables rules of ip_tables in table filter"},
	{"iptables-legacy drop, then removed", func(s *saboteur) {
		s.in("b", "iptables-legacy -A INPUT -p tcp -j DROP")
		s.wait(short)
		s.in("b", "iptables-legacy -D INPUT -p tcp -j DROP")
	}, "a packet filter drops them"},
	// Routes and addresses
	{"route over the other path", func(s *saboteur) {
		s.in("a", "ip route add "+s.address("b", 0)+"/32 via "+s.address("b", 1)+" dev spare")
	}, "a: route to "},
	{"route over the other path, then removed", func(s *saboteur) {
		s.in("a", "ip route add "+s.address("b", 0)+"/32 via "+s.address("b", 1)+" dev spare")
		s.wait(short)
		s.in("a", "ip route del "+s.address("b", 0)+"/32")
	}, "over spare in table 254, IPv4 was added"},
	{"rule that leads to the other path", func(s *saboteur) {
		s.in("a", "ip route add table 7 default via "+s.address("b", 1)+" dev spare")
		s.in("a", "ip rule add to "+s.address("b", 0)+" table 7")
	}, "a: route to default over spare in table 7"},
	{"acknowledgements over the other path", func(s *saboteur) {
		s.in("b", "ip route add "+s.address("a", 0)+"/32 via "+s.address("a", 1)+" dev spare")
	}, "though no flow crosses it: traffic took another path"},
	{"MTU of a route", func(s *saboteur) {
		s.in("a", "ip route add "+s.address("b", 0)+"/32 dev path mtu 700")
	}, "a: route to "},
	{"another address", func(s *saboteur) { s.in("a", "ip address add 10.99.0.1/24 dev path") }, "a: address 10.99.0.1/24 of path"},
	{"duplicate address", func(s *saboteur) { s.in("a", "ip address add "+s.address("b", 0)+"/32 dev lo") }, "a: address "},
	{"neighbour with a wrong address", func(s *saboteur) {
		s.in("a", "ip neighbour replace "+s.address("b", 0)+" lladdr 02:00:00:00:00:66 dev path nud permanent")
	}, "address was"},
	{"neighbour deleted", func(s *saboteur) { s.in("b", "ip neighbour del "+s.address("a", 0)+" dev path") }, "b: neighbour"},
	// Devices
	{"MTU", func(s *saboteur) { s.in("a", "ip link set path mtu 600") }, "a: device path: MTU was 1500 and is 600"},
	{"MTU, then reset", func(s *saboteur) {
		s.in("a", "ip link set path mtu 600")
		s.wait(short)
		s.in("a", "ip link set path mtu 1500")
	}, "a: device path: MTU was 1500 and is 600 during the run"},
	{"MTU inside the links", func(s *saboteur) { s.in("links", "ip link set l0b mtu 900") }, "the links' namespace: device l0b: MTU was 1500 and is 900"},
	{"address of the receiver's device", func(s *saboteur) { s.in("b", "ip link set path address 02:00:00:00:00:77") }, "b: device path: address was"},
	{"flapping link", func(s *saboteur) {
		s.in("a", "ip link set path down")
		s.wait(short)
		s.in("a", "ip link set path up")
	}, "a: device path"},
	{"device of the links down and up", func(s *saboteur) {
		s.in("links", "ip link set l0b down")
		s.wait(short)
		s.in("links", "ip link set l0b up")
	}, "the links' namespace: device l0b: "},
	{"device renamed", func(s *saboteur) {
		s.in("a", "ip link set path down")
		s.in("a", "ip link set path name other")
		s.in("a", "ip link set other up")
	}, "a: device other"},
	{"device removed", func(s *saboteur) { s.in("a", "ip link del path") }, "a: device path"},
	{"new device", func(s *saboteur) { s.in("b", "ip link add link path name other type macvlan") }, "b: device other"},
	// Settings
	{"SACK off", func(s *saboteur) { s.in("a", "sysctl -qw net.ipv4.tcp_sack=0") }, "a: setting net/ipv4/tcp_sack was 1 and is 0"},
	{"receive buffer", func(s *saboteur) { s.command("b", "", "sysctl", "-qw", "net.ipv4.tcp_rmem=4096 8192 16384") }, "b: setting net/ipv4/tcp_rmem was"},
	{"a setting, then reset", func(s *saboteur) {
		s.in("b", "sysctl -qw net.ipv4.tcp_moderate_rcvbuf=0")
		s.wait(short)
		s.in("b", "sysctl -qw net.ipv4.tcp_moderate_rcvbuf=1")
	}, "b: setting net/ipv4/tcp_moderate_rcvbuf was changed during the run"},
	{"congestion control", func(s *saboteur) { s.in("a", "sysctl -qw net.ipv4.tcp_congestion_control=reno") }, "a: setting net/ipv4/tcp_congestion_control"},
	// Foreign traffic
	{"foreign datagrams", foreignDatagrams, "a foreign flow"},
	{"foreign connection", foreignConnection, "a opened 1 TCP connections more than its flows have: a foreign flow"},
	{"ping", func(s *saboteur) { s.in("a", "ping -q -c 5 -i 0.02 "+s.address("b", 0)) }, "a sent 5 ICMP messages that no flow of the run asked for"},
	{"frames of a packet socket", func(s *saboteur) { s.frames("a", "path", 50) }, "50 frames left that none of its protocols sent: a foreign flow"},
	{"frames injected into the link", func(s *saboteur) { s.frames("links", "l0b", 50) }, "50 frames arrived at b that the link did not send"},
	// Programs
	{"XDP program that drops", func(s *saboteur) { s.attachXDP("b", "path", 200) }, "b: device path: XDP was"},
	{"TCX program that drops", func(s *saboteur) { s.attachTCX("a", "path") }, "packets that its protocols sent never came to a device: something inside drops them"},
	{"threaded NAPI on", func(s *saboteur) { s.command("b", "0", "tee", "/sys/class/net/path/threaded") }, "b: device path: threaded was"},
	{"transmit steering", func(s *saboteur) { s.command("a", "1", "tee", "/sys/class/net/path/queues/tx-0/xps_cpus") }, "a: device path: "},
	{"window of a route", func(s *saboteur) {
		s.in("a", "ip route replace "+s.address("b", 0)+"/32 dev path window 3000 initrwnd 2")
	}, "a: route to "},
	{"no ARP", func(s *saboteur) { s.in("a", "ip link set path arp off") }, "a: device path: "},
	{"reverse path filter of a device", func(s *saboteur) { s.in("b", "sysctl -qw net.ipv4.conf.path.rp_filter=1") }, "b: a setting of IPv4 of path was changed during the run"},
	{"loopback down", func(s *saboteur) { s.in("a", "ip link set lo down") }, "a: "},
	// Machine
	{"emulator stopped for 200 ms", func(s *saboteur) { s.stop(s.emulator(), 200*time.Millisecond) }, "the AF_XDP emulator stalled for"},
	{"emulator stopped for 80 ms", func(s *saboteur) { s.stop(s.emulator(), 80*time.Millisecond) }, "the AF_XDP emulator stalled for"},
	{"emulator killed", func(s *saboteur) {
		s.kill(s.emulator())
	}, "the links' carrier has ended"},
	{"measuring process stopped", func(s *saboteur) {
		self := strconv.Itoa(os.Getpid())
		if err := exec.Command("sh", "-c", "kill -STOP "+self+"; sleep 0.3; kill -CONT "+self).Run(); err != nil {
			s.t.Error(err)
		}
	}, "the measuring process stalled for"},
	{"CPUs occupied", func(s *saboteur) {
		var all sync.WaitGroup
		for range runtime.NumCPU() {
			all.Go(func() { s.hog(300 * time.Millisecond) })
		}
		all.Wait()
	}, "stalled for"},
}

// hog occupies a CPU for a time measured by the hog's own clock.
func (s *saboteur) hog(d time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 20}, 0)
		if err != nil {
			s.t.Error(err)
			return
		}
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
	}()
	<-done
}

func foreignDatagrams(s *saboteur) {
	err := s.namespace("a").Do(func() error {
		conn, err := net.Dial("udp4", net.JoinHostPort(s.address("b", 0), "9"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for range 100 {
			_, _ = conn.Write(make([]byte, 1000)) // the port is closed
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

func foreignConnection(s *saboteur) {
	var listener net.Listener
	err := s.namespace("b").Do(func() (err error) {
		listener, err = net.Listen("tcp4", net.JoinHostPort(s.address("b", 0), "0"))
		return err
	})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = listener.Close() }()
	err = s.namespace("a").Do(func() error {
		conn, err := net.DialTCP("tcp4", nil, listener.Addr().(*net.TCPAddr))
		if err != nil {
			return err
		}
		_, err = conn.Write(make([]byte, 1<<16))
		_ = conn.Close()
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// dropper is a program that drops everything.
func (s *saboteur) dropper(kind ebpf.ProgramType, verdict int32) *ebpf.Program {
	s.t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()}})
	if err != nil {
		s.t.Error(err)
		return nil
	}
	s.t.Cleanup(func() { _ = program.Close() })
	return program
}

func (s *saboteur) index(node, device string) int {
	conn, err := rtnl.Open(s.namespace(node))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer conn.Close()
	found, err := conn.Device(device)
	if err != nil {
		s.t.Error(err)
	}
	return found.Index
}

// attachXDP drops every frame, and detaches at the end of the test.
func (s *saboteur) attachXDP(node, device string, _ int) {
	program := s.dropper(ebpf.XDP, 1)
	if program == nil {
		return
	}
	index := s.index(node, device)
	err := s.namespace(node).Do(func() error {
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: index})
		if err == nil {
			s.t.Cleanup(func() { _ = attached.Close() })
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// attachTCX drops a device's outgoing packets for a short time.
func (s *saboteur) attachTCX(node, device string) {
	const drop = 2
	program := s.dropper(ebpf.SchedCLS, drop)
	if program == nil {
		return
	}
	index := s.index(node, device)
	err := s.namespace(node).Do(func() error {
		attached, err := link.AttachTCX(link.TCXOptions{Program: program, Interface: index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		s.wait(short)
		return attached.Close()
	})
	if err != nil {
		s.t.Error(err)
	}
}
