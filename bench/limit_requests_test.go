// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/modules/limit/police"
)

const (
	requestTurns = 100
	requestTime  = 30 * time.Millisecond // per measurement
	requestSize  = 100                   // bytes of a request and of its answer
	requestWarm  = 100                   // requests before a measurement

	// requestLimit is far above the connection's rate, in both directions.
	requestLimit units.BitRate = 10_000_000_000
)

// requestVariant is the configuration of the client's cgroup during the measurement.
type requestVariant struct {
	name    string
	sockets *cgroup.Sockets
	base    int // the variant with empty programs at the same hooks, or itself
}

// costOfRequests compares the rate of TCP requests, one outstanding at a time, between two
// namespaces joined by a veth pair: with a non-binding limit on the client's cgroup, of egress
// alone and of both directions, with empty programs at the hooks of each, and with none. A request
// costs only the stack and the programs, so an application's relative cost is smaller. Every
// measurement has its own connection; the variants take turns, each first equally often.
func costOfRequests(b *testing.B) {
	from, to := trafficPath(b)
	plane, both := requestPlane(b, direction.Egress, direction.Ingress)
	_, one := requestPlane(b, direction.Egress)
	variants := []requestVariant{
		{"none", openSockets(b, testutil.Cgroup(b)), 0},
		{"idle-programs", openSockets(b, idleGroup(b, both)), 1},
		{"limits", openSockets(b, both), 1},
		{"idle-programs-of-egress", openSockets(b, idleGroup(b, one)), 3},
		{"limit-of-egress", openSockets(b, one), 3},
	}
	for range b.N {
		rates := make([][]float64, len(variants))
		for turn := range requestTurns {
			for i := range variants {
				v := (turn + i) % len(variants)
				rates[v] = append(rates[v], requestRate(b, variants[v].sockets, from, to))
			}
		}
		for i, v := range variants[1:] {
			reportRatio(b, v.name+"-to-none", rates[i+1], rates[0])
			if v.base != i+1 {
				reportRatio(b, v.name+"-to-"+variants[v.base].name, rates[i+1], rates[v.base])
			}
		}
		b.ReportMetric(median(rates[0]), "requests/s-without")
	}
	counted, err := plane.Counters(0, direction.Egress)
	must(b, err)
	if counted.Packets == 0 || counted.Dropped+counted.Marked+counted.Reduced+counted.Forced != 0 {
		b.Errorf("the limit was to count and not to bind: %+v", counted)
	}
	costOfHooks(b, both, func() { requestRate(b, variants[2].sockets, from, to) })
	b.ReportMetric(0, "ns/op")
}

// requestPlane returns a data plane with a limit of one cgroup, and the cgroup.
func requestPlane(b *testing.B, directions ...direction.Direction) (*police.DataPlane, cgroup.Cgroup) {
	b.Helper()
	plane, group := costGroup(b, 1)
	id, err := group.ID()
	must(b, errors.Join(err, plane.AssignCgroup(id, 0)))
	for _, direction := range directions {
		must(b, plane.Set(0, direction, police.Limit{Rate: requestLimit}))
	}
	must(b, plane.Attach(group.Path))
	return plane, group
}

// requestHooks are the hooks at which limits may have programs.
var requestHooks = map[ebpf.AttachType]ebpf.ProgramType{ebpf.AttachCGroupInetEgress: ebpf.CGroupSKB,
	ebpf.AttachCGroupInetIngress: ebpf.CGroupSKB, ebpf.AttachCGroupSockOps: ebpf.SockOps}

// idleGroup returns a cgroup with empty programs at the hooks where another has programs.
func idleGroup(b *testing.B, other cgroup.Cgroup) cgroup.Cgroup {
	b.Helper()
	group := testutil.Cgroup(b)
	for hook, kind := range requestHooks {
		if len(testutil.ProgramsAt(b, other.Path, hook)) == 0 {
			continue
		}
		attached, err := link.AttachCgroup(link.CgroupOptions{Path: group.Path, Attach: hook, Program: idleProgram(b, kind, hook)})
		must(b, err)
		b.Cleanup(func() { _ = attached.Close() })
	}
	return group
}

// costOfHooks reports the kernel's own statistics of a run of each program under that load, ns;
// they include reading the clock.
func costOfHooks(b *testing.B, group cgroup.Cgroup, load func()) {
	b.Helper()
	on, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	must(b, err)
	defer func() { _ = on.Close() }()
	for name, hook := range map[string]ebpf.AttachType{"egress": ebpf.AttachCGroupInetEgress, "ingress": ebpf.AttachCGroupInetIngress,
		"sockops": ebpf.AttachCGroupSockOps} {
		program := attached(b, group.Path, hook)
		before, err := program.Stats()
		must(b, err)
		for range 5 {
			load()
		}
		after, err := program.Stats()
		must(b, err)
		if after.RunCount == before.RunCount {
			b.Errorf("%s did not run", name)
			continue
		}
		b.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns-run-"+name)
	}
}

// openSockets makes sockets of a cgroup.
func openSockets(b *testing.B, group cgroup.Cgroup) *cgroup.Sockets {
	b.Helper()
	sockets, err := group.OpenSockets(b.Context())
	must(b, err)
	b.Cleanup(func() { _ = sockets.Close() })
	return sockets
}

// requestRate returns the requests per second over a new connection with a client socket of the
// cgroup of sockets. Both ends stay in system calls: the Go runtime's network poller would take
// longer than the stack.
func requestRate(b *testing.B, sockets *cgroup.Sockets, from, to traffic.Endpoint) float64 {
	b.Helper()
	listener := -1
	must(b, to.Namespace.Do(func() (err error) {
		listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	defer func() { _ = unix.Close(listener) }()
	must(b, errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Addr: to.Address.As4()}), unix.Listen(listener, 1)))
	address, err := unix.Getsockname(listener)
	must(b, err)
	client, err := sockets.Socket(from.Namespace, unix.AF_INET, unix.SOCK_STREAM)
	must(b, err)
	must(b, unix.Connect(client, address))
	server, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(b, err)
	for _, fd := range []int{client, server} {
		must(b, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer onCPU(b, 0)()
		answer(server)
	}()
	defer func() {
		// The child that created the socket still has it open.
		must(b, errors.Join(unix.Shutdown(client, unix.SHUT_RDWR), unix.Close(client)))
		<-done
	}()
	defer onCPU(b, 0)()
	for range requestWarm {
		must(b, request(client))
	}
	began, n := time.Now(), 0
	for time.Since(began) < requestTime {
		for range 20 {
			must(b, request(client))
		}
		n += 20
	}
	return float64(n) / time.Since(began).Seconds()
}

// onCPU keeps the calling goroutine on a CPU until the returned function is called. Both ends of a
// connection share one busy CPU; on two, the wake-ups of idle CPUs vary by more than the cost of a
// limit.
func onCPU(b *testing.B, cpu int) (leave func()) {
	b.Helper()
	runtime.LockOSThread()
	var before, set unix.CPUSet
	set.Set(cpu)
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &set)); err != nil {
		b.Error(err)
	}
	return func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			b.Error(err)
		}
		runtime.UnlockOSThread()
	}
}

// answer answers requests until the other end closes.
func answer(server int) {
	defer func() { _ = unix.Close(server) }()
	buffer := make([]byte, requestSize)
	for {
		n, err := unix.Read(server, buffer)
		if err != nil || n == 0 {
			return
		}
		if _, err := unix.Write(server, buffer[:n]); err != nil {
			return
		}
	}
}

// request sends one and waits for the whole answer.
func request(client int) error {
	buffer := make([]byte, requestSize)
	if _, err := unix.Write(client, buffer); err != nil {
		return err
	}
	for got := 0; got < requestSize; {
		n, err := unix.Read(client, buffer)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the server has closed the connection")
		}
		got += n
	}
	return nil
}
