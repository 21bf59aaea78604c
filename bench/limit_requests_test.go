package bench

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/kernel/cgroup"
	"weir/internal/testutil"
	"weir/internal/units"
	"weir/lab/traffic"
	"weir/limit"
)

const (
	requestTurns = 100
	requestTime  = 30 * time.Millisecond // of one measurement
	requestSize  = 100                   // octets of a request and of its answer
	requestWarm  = 100                   // requests before a measurement

	// requestLimit is far above what the connection uses, both ways.
	requestLimit units.BitRate = 10_000_000_000
)

// costOfRequests compares the rate of TCP requests, one outstanding at a time, between two namespaces joined by a veth pair:
// with a limit on the client's cgroup that does not bind, with programs that do nothing at the same hooks, and with none.
// Nothing but the stack and the programs works for a request, so they cost an application less. Every measurement has a
// connection of its own; the three take turns, each first as often as the others.
func costOfRequests(b *testing.B) {
	from, to := trafficPath(b)
	plane, limited := costGroup(b, 1)
	id, err := limited.ID()
	l := limit.Limit{Rate: requestLimit}
	must(b, errors.Join(err, plane.AssignCgroup(id, 0), plane.Set(0, limit.Egress, l), plane.Set(0, limit.Ingress, l), plane.Attach(limited.Path)))
	hooked, free := testutil.Cgroup(b), testutil.Cgroup(b)
	attachIdle(b, hooked)
	variants := [3]*cgroup.Sockets{openSockets(b, limited), openSockets(b, hooked), openSockets(b, free)}
	for range b.N {
		var rates [3][]float64
		for turn := range requestTurns {
			for i := range variants {
				v := (turn + i) % len(variants)
				rates[v] = append(rates[v], requestRate(b, variants[v], from, to))
			}
		}
		reportRatio(b, "rate-with-to-without", rates[0], rates[2])
		reportRatio(b, "rate-with-to-idle-programs", rates[0], rates[1])
		reportRatio(b, "rate-with-idle-programs-to-without", rates[1], rates[2])
		b.ReportMetric(median(rates[2]), "requests/s-without")
	}
	counted, err := plane.Counters(0, limit.Egress)
	must(b, err)
	if counted.Packets == 0 || counted.Refused+counted.Marked+counted.Reduced+counted.Forced != 0 {
		b.Errorf("the limit was to count and not to bind: %+v", counted)
	}
	costOfHooks(b, limited, func() { requestRate(b, variants[0], from, to) })
	b.ReportMetric(0, "ns/op")
}

// attachIdle puts programs that do nothing at the hooks of a cgroup that limits use.
func attachIdle(b *testing.B, group cgroup.Cgroup) {
	b.Helper()
	for hook, kind := range map[ebpf.AttachType]ebpf.ProgramType{ebpf.AttachCGroupInetEgress: ebpf.CGroupSKB,
		ebpf.AttachCGroupInetIngress: ebpf.CGroupSKB, ebpf.AttachCGroupSockOps: ebpf.SockOps} {
		attached, err := link.AttachCgroup(link.CgroupOptions{Path: group.Path, Attach: hook, Program: idleProgram(b, kind, hook)})
		must(b, err)
		b.Cleanup(func() { _ = attached.Close() })
	}
}

// costOfHooks reports what the kernel's own statistics say of a run of each program under that load, ns; their clock is in it.
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

// openSockets makes sockets that belong to a cgroup.
func openSockets(b *testing.B, group cgroup.Cgroup) *cgroup.Sockets {
	b.Helper()
	sockets, err := group.OpenSockets(b.Context())
	must(b, err)
	b.Cleanup(func() { _ = sockets.Close() })
	return sockets
}

// requestRate is the number of requests per second over a new connection, whose client's socket belongs to the cgroup of
// sockets. Both ends stay in system calls: the Go runtime's network poller would take longer than the stack.
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
		defer onProcessor(b, 0)()
		answer(server)
	}()
	defer func() {
		// The process that has made the socket still holds it.
		must(b, errors.Join(unix.Shutdown(client, unix.SHUT_RDWR), unix.Close(client)))
		<-done
	}()
	defer onProcessor(b, 0)()
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

// onProcessor keeps the calling goroutine on a processor until the function that it returns is called. Both ends of a
// connection share one, which they keep busy; on two, the wake-ups of idle processors scatter by more than a limit costs.
func onProcessor(b *testing.B, processor int) (leave func()) {
	b.Helper()
	runtime.LockOSThread()
	var before, set unix.CPUSet
	set.Set(processor)
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

// answer returns what comes until the other end closes.
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

// request sends one and waits for all of its answer.
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
