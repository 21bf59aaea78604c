// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/core/engine"
	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// uplink is a network namespace with the veth pair v0-v1 and a daemon that only follows events.
type uplink struct {
	*testing.T
	ns *netns.Namespace
	e  *engine.Engine
}

func newUplink(t *testing.T, policy string) *uplink {
	t.Helper()
	u := &uplink{t, testutil.Namespace(t, "uplink"), setup(t)}
	u.ip("link add v0 type veth peer name v1")
	u.ip("link set v0 up")
	u.ip("link property add dev v0 altname the-uplink-of-this-rack")
	file := filepath.Join(t.TempDir(), "policy.yaml")
	testutil.Write(t, file, "version: 1\n"+policy)
	process, err := child.StartIn(context.Background(), "follow", t.Output(), func(*syscall.SysProcAttr) error { return u.ns.Enter() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		_ = process.Wait()
		if err := u.ns.Do(func() error { _, err := u.e.Release(); return err }); err != nil {
			t.Error(err)
		}
	})
	if err := json.NewEncoder(process.In).Encode(follower{u.e.StateDir, u.e.PinDir, u.e.CgroupRoot, file}); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *uplink) ip(args string) {
	u.Helper()
	if out, err := exec.Command(testutil.Command(u.T, "ip"), strings.Fields("-n "+u.ns.Name+" "+args)...).CombinedOutput(); err != nil {
		u.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}

// status returns the states of the scopes, whether all modules are in place, and their notes.
func (u *uplink) status() (text string) {
	u.Helper()
	var status engine.Status
	if err := u.ns.Do(func() (err error) { status, err = u.e.Status(); return err }); err != nil {
		u.Fatal(err)
	}
	text = fmt.Sprintf("enforced %t", status.Enforced && !status.Underway && !status.Interrupted)
	for _, s := range status.Scopes {
		text += fmt.Sprintf("; %s %s", s.Name, s.State)
	}
	for _, m := range status.Modules {
		for _, note := range m.Notes {
			if strings.Contains(note, "not there") || strings.Contains(note, "no such") || strings.Contains(note, "there is no") {
				text += "; " + note
			}
		}
	}
	return text
}

func (u *uplink) becomes(want string) {
	u.Helper()
	last := ""
	defer func() {
		if u.Failed() {
			u.Logf("last status: %s", last)
		}
	}()
	testutil.Eventually(u.T, patience, want, func() bool { last = u.status(); return last == want })
}

// uplinkPolicies name a device in all modules: in scopes and in sections of the host.
var uplinkPolicies = map[string]string{
	"limit":   "scopes: {up: {interface: NAME, ingress: {rate: 5Mbit, mode: police}, egress: {rate: 5Mbit, mode: shape}}}",
	"links":   "links: {NAME: {rate: 10Mbit}}",
	"borders": "borders: {NAME: {translate: {LE: CS1}}}",
	"ioam":    "ioam: {node: 7, interfaces: {NAME: {}}}",
}

// atUplink runs a test for each policy with a name of v0. upheld is the status of the policy in
// place.
func atUplink(t *testing.T, name string, test func(u *uplink, upheld string)) {
	testutil.NeedRoot(t)
	for module, policy := range uplinkPolicies {
		t.Run(module, func(t *testing.T) {
			upheld := "enforced true"
			if module == "limit" {
				upheld += "; up enforced"
			}
			u := newUplink(t, strings.ReplaceAll(policy, "NAME", name))
			u.becomes(upheld)
			test(u, upheld)
		})
	}
}

// The kernel's events suffice: a device that comes back is treated again without a resync.
func TestADeviceThatComesBackIsTreatedAtOnce(t *testing.T) {
	atUplink(t, "v0", func(u *uplink, upheld string) {
		u.ip("link del v0")
		u.ip("link add v0 type veth peer name v1")
		testutil.Eventually(u.T, patience, "treatment", func() bool { return u.treated("v0") })
		u.becomes(upheld)
	})
}

// A renamed device keeps its treatment and its status, until another device gets its former name.
func TestARenamedDeviceStaysTreated(t *testing.T) {
	atUplink(t, "v0", func(u *uplink, upheld string) {
		u.ip("link set v0 down")
		u.ip("link set v0 name wan0")
		u.ip("link set wan0 up")
		u.becomes(upheld)
		if !u.treated("wan0") {
			u.Error("wan0 is not treated")
		}
		u.ip("link add v0 type veth peer name v2")
		defer func() {
			if u.Failed() {
				u.describe("v0", "wan0")
			}
		}()
		testutil.Eventually(u.T, patience, "treatment of v0 alone", func() bool { return u.treated("v0") && !u.treated("wan0") })
		u.becomes(upheld)
	})
}

// A policy may use an alternative name, also a long one.
func TestAlternativeNamesOfDevices(t *testing.T) {
	atUplink(t, "the-uplink-of-this-rack", func(u *uplink, _ string) {
		if !u.treated("v0") {
			u.Error("v0 is not treated")
		}
	})
}

// describe logs the status, the treatment of devices, and the pins at devices.
func (u *uplink) describe(devices ...string) {
	u.Helper()
	for _, dev := range devices {
		out, err := exec.Command("ip", "-n", u.ns.Name, "-o", "link", "show", "dev", dev).CombinedOutput()
		u.Logf("%s: treated %t, %v: %s", dev, u.treated(dev), err, out)
	}
	pins, _ := filepath.Glob(filepath.Join(u.e.DevicePins(), "*"))
	u.Logf("status: %s; pins at devices: %v", u.status(), pins)
}

// treated reports whether a device has programs or a tree of Weir.
func (u *uplink) treated(dev string) bool {
	u.Helper()
	out, err := exec.Command(testutil.Command(u.T, "ip"), "-n", u.ns.Name, "-o", "link", "show", "dev", dev).Output()
	if err != nil {
		u.Fatal(err)
	}
	index, _, _ := strings.Cut(string(out), ":")
	pins, err := filepath.Glob(filepath.Join(u.e.DevicePins(), "*-"+index+"-*"))
	if err != nil {
		u.Fatal(err)
	}
	return len(pins) > 0 || strings.Contains(string(out), " qdisc htb ")
}
