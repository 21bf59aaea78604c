// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/daemon"
	"weir/core/engine"
	"weir/core/match"
	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules"
)

// Users of the host, and the last bytes of the far end's addresses.
const (
	evil, victim              = 61501, 61502
	ownAddress, sharedAddress = 100, 50
	mark                      = 0x77
	shortTime                 = 15 * time.Second
	patience                  = time.Minute
	maxShare                  = 1.01          // maximum passed share of a limit
	allowance                 = 41 * 1514 * 2 // bytes: the maximum of an idle scope's virtual queue in addition, and packets in flight
	minShare                  = 0.95          // minimum passed share of an offer within the limit
)

// policy has ten scopes: two of the attacker's, one that he can send to, and those of others.
const policy = `version: 1
scopes:
  evil:   {cgroup: /evil, egress: {rate: 8Mbit, mode: police}}
  his:    {user: 61501, egress: {rate: 6Mbit, mode: police}}
  victim: {user: 61502, egress: {rate: 3Mbit, mode: police}}
  one:    {cgroup: /one, egress: {rate: 2Mbit, mode: police}}
  two:    {cgroup: /two, egress: {rate: 4Mbit, mode: police}}
  three:  {cgroup: /two/three, egress: {rate: 1Mbit, mode: police}}
  four:   {cgroup: /four, egress: {rate: 5Mbit, mode: police}}
  five:   {cgroup: /five, egress: {rate: 1Mbit, mode: police}}
  shared: {prefix: 10.9.0.50/32, egress: {rate: 2Mbit, mode: police}}
  marked: {mark: 0x77, egress: {rate: 2Mbit, mode: police}}
`

// bystander is a fully used scope of another user.
type bystander struct {
	scope, group string
	rate         int // bit/s of the scope
	to           byte
	offered      atomic.Int64 // bytes offered within the limit
}

func TestMain(m *testing.M) {
	attacker()
	child.Main(child.Parts{"daemon": serve, cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// stand is the test bed of the attack.
type stand struct {
	*testing.T
	here, there *netns.Namespace
	root        string
	State, Pins string
	target      target
	far         *far
}

// served is the configuration of the daemon.
type served struct{ State, Pins, Root, Namespace, Policy, Socket, Metrics string }

func serve(in io.Reader, _ io.Writer) error {
	var d served
	if err := json.NewDecoder(in).Decode(&d); err != nil {
		return err
	}
	language, err := modules.Language(modules.All())
	if err != nil {
		return err
	}
	e := &engine.Engine{Modules: modules.All(), Language: language, StateDir: d.State, PinDir: d.Pins, CgroupRoot: d.Root,
		Sockets: func(each func(*netns.Namespace) error) error {
			ns, err := netns.Open(d.Namespace)
			if err != nil {
				return err
			}
			defer func() { _ = ns.Close() }()
			return each(ns)
		}}
	return (&daemon.Service{Engine: e, Policy: d.Policy, Socket: d.Socket, Metrics: d.Metrics, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}).Run(context.Background())
}

// An unprivileged user with every available means lifts no limit, his own included, takes nothing
// from others, and does not stop the daemon's answers.
func TestAnUnprivilegedUserLiftsNoLimit(t *testing.T) {
	testutil.NeedRoot(t)
	for _, name := range []string{"bash", "unshare", "ip"} {
		testutil.Command(t, name)
	}
	if err := match.Reads(ebpf.CGroupSKB); err != nil {
		testutil.Need(t, "tracing", err) // without it, users of containers are identified by their numbers there
	}
	long := shortTime
	if text := os.Getenv("WEIR_ATTACK"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newStand(t)
	others := []*bystander{
		{scope: "victim", group: "", rate: 3e6, to: 10}, {scope: "one", group: "one", rate: 2e6, to: 11}, {scope: "two", group: "two", rate: 1.8e6, to: 12},
		{scope: "three", group: "two/three", rate: 1e6, to: 13}, {scope: "four", group: "four", rate: 5e6, to: 14}, {scope: "five", group: "five", rate: 1e6, to: 15},
		{scope: "marked", group: "", rate: 2e6, to: 16},
	}
	told := s.attack()
	stop := make(chan struct{})
	var senders []chan error
	for _, b := range others {
		ended := make(chan error, 1)
		senders = append(senders, ended)
		fd := s.socket(b)
		go func() { ended <- b.send(fd, stop) }()
	}
	offered := map[string]int64{}
	for _, b := range others {
		offered[b.scope] = -b.offered.Load()
	}
	before, evilsBefore := s.far.counted()
	began := time.Now()
	slowest := s.ask(began.Add(long))
	for _, b := range others {
		offered[b.scope] += b.offered.Load()
	}
	after, evilsAfter := s.far.counted()
	elapsed := time.Since(began)
	close(stop)
	for _, ended := range senders {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	passed := func(to byte) int { return after[to] - before[to] }
	his := passed(ownAddress) + evilsAfter[sharedAddress] - evilsBefore[sharedAddress]
	s.atMost("his", 6e6, his, elapsed)
	s.atMost("shared", 2e6, passed(sharedAddress), elapsed)
	s.atMost("two", 4e6, passed(12)+passed(13), elapsed)
	if his == 0 {
		t.Error("the attackers have sent nothing")
	}
	for _, b := range others {
		if b.scope != "two" {
			s.atMost(b.scope, b.rate, passed(b.to), elapsed)
		}
		part := float64(passed(b.to)) / float64(max(offered[b.scope], 1))
		t.Logf("%s: %.1f %% of what it offered within its limit arrived", b.scope, 100*part)
		if part < minShare {
			t.Errorf("%s was brought to %.1f %% of what it would have had", b.scope, 100*part)
		}
	}
	t.Logf("the daemon's slowest answer took %v", slowest)
	if os.Getenv("WEIR_ATTACK") != "" && slowest > time.Second {
		t.Errorf("the daemon took %v to answer", slowest)
	}
	for _, line := range told() {
		t.Errorf("an attacker %s", line)
	}
	s.isActive()
}

func (s *stand) atMost(scope string, rate, octets int, elapsed time.Duration) {
	s.Helper()
	allowed := float64(rate) / 8 * elapsed.Seconds()
	s.Logf("%s: %.2f %% of its limit passed", scope, 100*float64(octets)/allowed)
	if float64(octets) > maxShare*allowed+allowance {
		s.Errorf("%s: %d octets passed in %v, its limit is %.0f", scope, octets, elapsed, allowed)
	}
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{T: t, here: testutil.Namespace(t, "host"), there: testutil.Namespace(t, "far"), root: testutil.Cgroup(t).Path}
	s.link()
	s.far = watch(t, s.there)
	for _, group := range []string{"evil/his", "one", "two/three", "four", "five"} {
		if err := os.MkdirAll(filepath.Join(s.root, group), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Like a cgroup that a service manager delegates to its user.
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(s.root, "evil/his", name), evil, evil); err != nil {
			t.Fatal(err)
		}
	}
	// Folders within the attacker's reach, like /run and /sys/fs/bpf.
	s.State, s.Pins = reachable(t, t.TempDir()), filepath.Join(reachable(t, testutil.BPFFS(t)), "weir")
	file := filepath.Join(s.State, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	s.target = target{Own: [4]byte{10, 9, 0, ownAddress}, Shared: [4]byte{10, 9, 0, sharedAddress}, Root: s.root, State: s.State,
		Socket: filepath.Join(s.State, "socket"), Metrics: "127.0.0.1:9471"}
	process, err := child.StartIn(t.Context(), "daemon", t.Output(), func(*syscall.SysProcAttr) error { return s.here.Enter() })
	if err != nil {
		t.Fatal(err)
	}
	s.target.Daemon = process.PID()
	if err := json.NewEncoder(process.In).Encode(served{filepath.Join(s.State, "state"), s.Pins, s.root, s.here.Name, file, s.target.Socket, s.target.Metrics}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		_ = process.Wait()
		language, err := modules.Language(modules.All())
		if err == nil {
			e := &engine.Engine{Modules: modules.All(), Language: language, StateDir: filepath.Join(s.State, "state"), PinDir: s.Pins, CgroupRoot: s.root,
				Sockets: func(each func(*netns.Namespace) error) error { return each(s.here) }}
			err = s.here.Do(func() error { _, err := e.Release(); return err })
		}
		if err != nil {
			t.Error(err)
		}
	})
	testutil.Eventually(t, patience, "the policy is active", func() bool {
		status, err := s.status()
		return err == nil && status.Enforced
	})
	return s
}

// reachable makes a test's folder accessible to every user.
func reachable(t *testing.T, dir string) string {
	t.Helper()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *stand) link() {
	s.Helper()
	for i, ns := range []*netns.Namespace{s.here, s.there} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			s.Fatal(err)
		}
		defer conn.Close()
		addresses := []byte{1}
		if i == 1 {
			addresses = []byte{10, 11, 12, 13, 14, 15, 16, sharedAddress, ownAddress}
		} else if err := conn.AddVeth("eth0", s.there, "eth0", 0); err != nil {
			s.Fatal(err)
		}
		for _, last := range addresses {
			if err := conn.AddAddress("eth0", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, last}), 24)); err != nil {
				s.Fatal(err)
			}
		}
		if err := conn.SetUp("eth0"); err != nil {
			s.Fatal(err)
		}
	}
}

// attack starts every means, as the attacker and in his cgroup. The returned function returns their
// output.
func (s *stand) attack() (told func() []string) {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	program := filepath.Join(s.State, "attacker") // where he may run it from
	text, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	group, failed := os.Open(filepath.Join(s.root, "evil/his"))
	about, encoded := json.Marshal(s.target)
	if err := errors.Join(err, failed, encoded); err != nil {
		s.Fatal(err)
	}
	defer func() { _ = group.Close() }()
	var all []*exec.Cmd
	var out []*strings.Builder
	for name := range means {
		command := exec.Command(program)
		said := &strings.Builder{}
		command.Env = append(os.Environ(), "WEIR_ATTACK_MEANS="+name+" "+string(about))
		command.Stdout, command.Stderr = said, said
		attributes := &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd()), Credential: &syscall.Credential{Uid: evil, Gid: evil}}
		if name == "raw" {
			attributes.AmbientCaps = []uintptr{unix.CAP_NET_RAW}
		}
		command.SysProcAttr = attributes
		if _, err := command.StdinPipe(); err != nil {
			s.Fatal(err)
		}
		if err := s.here.Do(command.Start); err != nil {
			s.Fatal(err)
		}
		all, out = append(all, command), append(out, said)
	}
	end := func() {
		for _, command := range all {
			_ = unix.Kill(-command.Process.Pid, unix.SIGKILL) // with its children
			_ = command.Wait()
		}
		all = nil
	}
	s.Cleanup(end)
	return func() (lines []string) {
		end()
		for _, said := range out {
			for line := range strings.Lines(said.String()) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
}

// ask queries the daemon's status and metrics until then, and returns the longest answer time.
func (s *stand) ask(until time.Time) (slowest time.Duration) {
	s.Helper()
	for time.Now().Before(until) {
		began := time.Now()
		status, err := s.status()
		if err != nil || !status.Enforced {
			s.Errorf("the response of the daemon: enforced %t, %v", status.Enforced, err)
		}
		slowest = max(slowest, time.Since(began))
		<-time.After(500 * time.Millisecond)
	}
	return slowest
}

// answer is the part of the daemon's status that these tests read.
type answer struct {
	Enforced bool
	Scopes   []struct{ Name, State string }
}

func (s *stand) status() (status answer, err error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.target.Socket)
		}}}
	got, err := client.Get("http://weir/v1/status")
	if err != nil {
		return status, err
	}
	defer func() { _ = got.Body.Close() }()
	return status, json.NewDecoder(got.Body).Decode(&status)
}

// isActive checks that every scope is unchanged.
func (s *stand) isActive() {
	s.Helper()
	status, err := s.status()
	if err != nil {
		s.Fatal(err)
	}
	for _, scope := range status.Scopes {
		if scope.State != "enforced" {
			s.Errorf("scope %s is %s", scope.Name, scope.State)
		}
	}
	if len(status.Scopes) != 10 {
		s.Errorf("%d scopes are active", len(status.Scopes))
	}
}
