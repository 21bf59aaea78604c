// SPDX-License-Identifier: Apache-2.0

// Package fleettest builds a fleet for tests and benchmarks: hosts with network, mounts and cgroup
// hierarchy of their own, each with its daemon, behind one router and one bottleneck.
//
//	host0 --\
//	host1 ---+-- site: weir fleet serve, router -- bottleneck --> sink: iperf3 servers
//	  ...  --/
package fleettest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// Address of the server and of the sink.
const (
	Server = "10.78.0.1:4222"
	sink   = "10.78.0.2"
)

// Lab is a fleet of hosts.
type Lab struct {
	testing.TB
	Binary string // weir
	Dir    string // of the server
	Hosts  []*Host
	site   *netns.Namespace
	sink   *netns.Namespace
}

// Host is one host.
type Host struct {
	Name   string
	Net    *netns.Namespace
	Cgroup cgroup.Cgroup
	job    cgroup.Cgroup // of its traffic
	policy string
	lab    *Lab
	holder *exec.Cmd // keeps the mounts, as a host does without a daemon
	daemon *exec.Cmd
	port   int // of its iperf3 server
}

// New makes the namespaces and cgroups of a lab.
func New(t testing.TB, binary string, hosts int) *Lab {
	t.Helper()
	testutil.NeedRoot(t)
	l := &Lab{TB: t, Binary: binary, Dir: t.TempDir(), site: testutil.Namespace(t, "site"), sink: testutil.Namespace(t, "sink")}
	l.join(l.site, "out", "10.78.0.1/24", l.sink, sink+"/24", "10.78.0.1")
	l.must(sysctl.Set(l.site, "net.ipv4.ip_forward", "1"))
	for i := range hosts {
		h := &Host{Name: fmt.Sprintf("host%d", i), Net: testutil.Namespace(t, fmt.Sprintf("h%d", i)), Cgroup: testutil.Cgroup(t), lab: l, port: 5201 + i}
		var err error
		h.job, err = cgroup.Create(h.Cgroup.Path, "job")
		l.must(err)
		gateway := fmt.Sprintf("10.77.%d.1", i)
		l.join(l.site, h.Name, gateway+"/24", h.Net, fmt.Sprintf("10.77.%d.2/24", i), gateway)
		h.policy = filepath.Join(t.TempDir(), "policy.yaml")
		l.Hosts = append(l.Hosts, h)
		l.start(l.sink, cgroup.Cgroup{}, "iperf3", "-s", "-p", fmt.Sprint(h.port))
	}
	return l
}

func (l *Lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// join connects two namespaces; the second one has a default route.
func (l *Lab) join(a *netns.Namespace, dev, address string, b *netns.Namespace, other, gateway string) {
	l.Helper()
	at, err := rtnl.Open(a)
	l.must(err)
	defer at.Close()
	there, err := rtnl.Open(b)
	l.must(err)
	defer there.Close()
	l.must(at.AddVeth(dev, b, "eth0", 1500))
	l.must(at.AddAddress(dev, netip.MustParsePrefix(address)))
	l.must(at.SetUp(dev))
	l.must(there.AddAddress("eth0", netip.MustParsePrefix(other)))
	l.must(there.SetUp("eth0"))
	l.must(there.AddRoute(rtnl.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(gateway)}))
}

// start runs a program in a namespace and cgroup until the end of the test.
func (l *Lab) start(ns *netns.Namespace, group cgroup.Cgroup, args ...string) *exec.Cmd {
	l.Helper()
	c := exec.Command("nsenter", append([]string{"--net=" + ns.Path()}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{} // no Pdeathsig: threads that enter namespaces end before the test
	log, err := os.Create(filepath.Join(l.TempDir(), "log"))
	l.must(err)
	c.Stdout, c.Stderr = log, log
	if group.Path != "" {
		folder, err := os.Open(group.Path)
		l.must(err)
		defer func() { _ = folder.Close() }()
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(folder.Fd())
	}
	l.must(c.Start())
	l.Cleanup(func() {
		End(c, syscall.SIGKILL)
		if text, _ := os.ReadFile(log.Name()); l.Failed() && len(text) > 0 {
			l.Logf("%s:\n%s", strings.Join(args, " "), text)
		}
	})
	return c
}

// End ends a process that was started.
func End(c *exec.Cmd, signal syscall.Signal) {
	if c.ProcessState == nil {
		_ = c.Process.Signal(signal)
		_ = c.Wait()
	}
}

// Serve starts the fleet's server in the site.
func (l *Lab) Serve() *exec.Cmd {
	l.Helper()
	return l.start(l.site, cgroup.Cgroup{}, l.Binary, "fleet", "serve", "--name", "lab", "--listen", Server, "--dir", l.Dir)
}

// Operate runs weir fleet with the operator's credentials, until it succeeds.
func (l *Lab) Operate(args ...string) string {
	l.Helper()
	var text []byte
	testutil.Eventually(l, 30*time.Second, "weir fleet "+strings.Join(args, " "), func() bool {
		all := append([]string{"--net=" + l.site.Path(), l.Binary, "fleet"}, args...)
		all = append(all, "--server", Server, "--credentials", filepath.Join(l.Dir, "operator.credentials"))
		var err error
		text, err = exec.Command("nsenter", all...).CombinedOutput()
		return err == nil
	})
	return string(text)
}

// Limit applies the shared limit wan.
func (l *Lab) Limit(rate string) {
	l.Helper()
	path := filepath.Join(l.TempDir(), "limits.yaml")
	l.must(os.WriteFile(path, []byte("version: 1\nshared: {wan: "+rate+"}\n"), 0o600))
	l.Operate("apply", path)
}

// Enroll writes the credentials of all hosts.
func (l *Lab) Enroll() {
	l.Helper()
	for _, h := range l.Hosts {
		text, err := exec.Command(l.Binary, "fleet", "enroll", h.Name, "--name", "lab", "--dir", l.Dir, "--file", h.credentials()).CombinedOutput()
		if err != nil {
			l.Fatalf("enroll %s: %s", h.Name, text)
		}
	}
}

func (h *Host) credentials() string { return filepath.Join(filepath.Dir(h.policy), "credentials") }

// Follow starts the host's daemon with a shared egress limit of its job. keys are further keys, as
// ", min: 1Mbit".
func (h *Host) Follow(keys string) {
	h.lab.Helper()
	h.Daemon(fmt.Sprintf("version: 1\nfleet: {name: lab, servers: [%q], host: %s, credentials: %s}\nscopes: {job: {cgroup: /job, egress: {shared: wan%s}}}\n",
		Server, h.Name, h.credentials(), keys))
}

// inside makes the mounts of a host, and keeps them.
const inside = `mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf && mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs tmpfs /run && mkdir -p /run/weir && exec sleep infinity`

// hold makes the mounts of the host.
func (h *Host) hold() {
	h.lab.Helper()
	h.holder = h.lab.start(h.Net, h.Cgroup, "unshare", "--mount", "--cgroup", "--propagation", "private", "sh", "-c", inside)
	testutil.Eventually(h.lab, 10*time.Second, "the mounts of a host", func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.holder.Process.Pid))
		return string(name) == "sleep\n"
	})
}

// Daemon starts the host's daemon with a policy.
func (h *Host) Daemon(policy string) {
	h.lab.Helper()
	h.lab.must(os.WriteFile(h.policy, []byte(policy), 0o600))
	if h.holder == nil {
		h.hold()
	}
	h.daemon = h.lab.start(h.Net, h.Cgroup, "nsenter", "--target", fmt.Sprint(h.holder.Process.Pid), "--mount", "--cgroup",
		h.lab.Binary, "daemon", h.policy, "--socket", "")
}

// Enforces waits until the host enforces its policy, and status as JSON has the given text.
func (h *Host) Enforces(text string) {
	h.lab.Helper()
	testutil.Eventually(h.lab, 30*time.Second, h.Name+" enforces "+text, func() bool {
		status, err := exec.Command("nsenter", "--net="+h.Net.Path(), "--target", fmt.Sprint(h.holder.Process.Pid), "--mount", "--cgroup",
			h.lab.Binary, "status", "--format", "json").Output()
		return err == nil && strings.Contains(string(status), `"state": "enforced"`) && strings.Contains(string(status), text)
	})
}

// Kill ends the host's daemon at once.
func (h *Host) Kill() { End(h.daemon, syscall.SIGKILL) }

// Send starts TCP connections from the host to the sink, until stop.
func (h *Host) Send(streams int) (stop func()) {
	h.lab.Helper()
	c := h.lab.start(h.Net, h.job, "iperf3", "-c", sink, "-p", fmt.Sprint(h.port), "-t", "1000", "-P", fmt.Sprint(streams), "-i", "0")
	return func() { End(c, syscall.SIGKILL) }
}

// Arrived returns the bytes that came through the bottleneck, counted at the sink's device.
func (l *Lab) Arrived() uint64 {
	l.Helper()
	at, err := rtnl.Open(l.sink)
	l.must(err)
	defer at.Close()
	c, err := at.Traffic("eth0")
	l.must(err)
	return c.ReceivedOctets
}

// Sent returns the bytes that a host sent, counted at the site's device.
func (h *Host) Sent() uint64 {
	h.lab.Helper()
	at, err := rtnl.Open(h.lab.site)
	h.lab.must(err)
	defer at.Close()
	c, err := at.Traffic(h.Name)
	h.lab.must(err)
	return c.ReceivedOctets
}

// Joined waits until the leader hears all hosts.
func (l *Lab) Joined() {
	l.Helper()
	testutil.Eventually(l, 30*time.Second, "the hosts' contact with the leader", func() bool {
		return strings.Count(l.Operate("status", "--format", "json"), `"contact": true`) >= len(l.Hosts)
	})
}
