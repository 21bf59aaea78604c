// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"weir/kernel/testutil"
)

// The traffic of a pod to another one of the node is limited in both directions and families.
func TestTrafficBetweenPodsIsLimited(t *testing.T) {
	for _, main := range []string{"bridge", "ptp"} {
		t.Run(main, func(t *testing.T) {
			n := newNode(t, main, "")
			n.need()
			one := n.container("one", `{"ingressRate": 8000000, "ingressBurst": 2147483647, "egressRate": 16000000, "egressBurst": 2147483647}`).mustAdd()
			two := n.container("two", "").mustAdd()
			if err := errors.Join(one.check(), two.check()); err != nil {
				t.Fatal(err)
			}
			const scope, size = "cni/one/eth0", 100_000
			for i := range one.ip {
				for _, way := range []struct {
					from, to        *container
					host, container string
				}{{one, two, "ingress", "egress"}, {two, one, "egress", "ingress"}} {
					before := n.counted(scope, way.host, "bytes")
					if got := send(t, way.from.ns, way.to.ns, way.to.ip[i], size); got != size {
						t.Errorf("%d of %d bytes arrived", got, size)
					}
					if charged := n.counted(scope, way.host, "bytes") - before; charged < size {
						t.Errorf("%s of %s: %d bytes are charged, %d arrived", way.container, one.ip[i], charged, size)
					}
				}
			}
			for _, host := range []string{"ingress", "egress"} {
				if n.counted(scope, host, "delayed")+n.counted(scope, host, "marked") == 0 {
					t.Errorf("%s at the host's device: no packet was delayed or marked", host)
				}
			}
			if all := n.scopes(); len(all) != 1 || all[0].Owner == nil || all[0].Owner.For != "pod default/one" {
				t.Errorf("scopes %+v", all)
			}
			if err := errors.Join(one.delete(), two.delete(), one.delete()); err != nil {
				t.Fatal(err)
			}
			n.nothingLeft()
		})
	}
}

// GC of a network keeps the valid attachments and those of other networks.
func TestGCRemovesStaleLimits(t *testing.T) {
	n := newNode(t, "bridge", "")
	n.need()
	const limit = `{"ingressRate": 8000000, "ingressBurst": 100000}`
	for _, id := range []string{"one", "two", "three"} {
		n.container(id, limit).mustAdd()
	}
	collect := func(network string, valid ...types.GCAttachment) {
		t.Helper()
		// Debian's plugins are older than GC, so weir has a list of its own here.
		list, err := libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": %q, "plugins": [{"type": "weir"}]}`, network))
		if err != nil {
			t.Fatal(err)
		}
		empty := libcni.NewCNIConfigWithCacheDir(n.cni.Path, t.TempDir(), nil) // the cache would delete before
		n.do(func() error {
			return empty.GCNetworkList(context.Background(), list, &libcni.GCArgs{ValidAttachments: valid})
		})
	}
	collect("green")
	if all := n.scopes(); len(all) != 3 {
		t.Errorf("GC of another network left %d limits", len(all))
	}
	collect("blue", types.GCAttachment{ContainerID: "two", IfName: "eth0"}, types.GCAttachment{ContainerID: "three", IfName: "eth1"})
	if all := n.scopes(); len(all) != 1 || all[0].Name != "cni/two/eth0" {
		t.Errorf("GC left %+v", all)
	}
	collect("blue")
	n.nothingLeft()
}

// ADD changes a limit, and CHECK finds one that differs.
func TestCheckComparesTheLimit(t *testing.T) {
	n := newNode(t, "bridge", `, "ingressRate": "10M"`)
	n.need()
	one := n.container("one", "").mustAdd()
	if err := one.check(); err != nil {
		t.Fatal(err)
	}
	n.list.Plugins[1].Bytes = []byte(strings.Replace(string(n.list.Plugins[1].Bytes), "10M", "20M", 1))
	if err := one.check(); err == nil || !strings.Contains(err.Error(), "has the limit egress 10 Mbit/s") {
		t.Errorf("CHECK of another rate: %v", err)
	}
	n.do(func() error { _, err := n.e.ReleaseAll(); return err })
	if err := one.check(); err == nil || !strings.Contains(err.Error(), "has no limit") {
		t.Errorf("CHECK without a limit: %v", err)
	}
}

// A policy takes a pod's limit over, and gives it back.
func TestThePolicyGoesBeforeThePlugin(t *testing.T) {
	n := newNode(t, "bridge", `, "ingressRate": "10M"`)
	n.need()
	one := n.container("one", "").mustAdd()
	device := n.scopes()[0].Selector.Text
	apply := func(text string) {
		t.Helper()
		n.do(func() error {
			p, err := n.e.Language.Parse("policy", []byte("version: 1\nscopes: {"+text+"}\n"))
			if err != nil {
				return err
			}
			_, err = n.e.Apply(p)
			return err
		})
	}
	apply("mine: {interface: " + device + ", egress: {rate: 20Mbit, mode: shape}}")
	if all := n.scopes(); len(all) != 2 || all[0].State != "enforced" || all[1].State != "replaced by scope mine" {
		t.Errorf("with a policy: %+v", all)
	}
	if err := one.check(); err != nil {
		t.Error(err)
	}
	n.do(func() error { _, err := n.e.Release(); return err })
	if all := n.scopes(); len(all) != 1 || all[0].State != "enforced" {
		t.Errorf("after the release: %+v", all)
	}
	if err := one.delete(); err != nil {
		t.Fatal(err)
	}
	n.nothingLeft()
}

// The limit ends with its device, and a later one of the name has none.
func TestALimitEndsWithItsDevice(t *testing.T) {
	n := newNode(t, "bridge", `, "ingressRate": "10M", "egressRate": "10M"`)
	n.need()
	one := n.container("one", "").mustAdd()
	if err := one.ns.Do(func() error { return deleteDevice("eth0") }); err != nil {
		t.Fatal(err)
	}
	two := n.container("two", "").mustAdd()
	if all := n.scopes(); len(all) != 1 || all[0].Name != "cni/two/eth0" {
		t.Errorf("scopes %+v", all)
	}
	if err := errors.Join(one.delete(), two.delete()); err != nil {
		t.Fatal(err)
	}
	n.nothingLeft()
}

// A plugin that is killed at any time leaves the limit, or nothing; the next command completes it.
func TestAKilledPluginLeavesNothing(t *testing.T) {
	n := newNode(t, "bridge", "")
	n.need()
	random := testutil.Rand(t)
	one := n.container("one", "").mustAdd()
	result, err := n.cni.GetNetworkListCachedResult(n.list, one.rt)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		plugin := exec.Command(filepath.Join(n.cni.Path[0], "weir"))
		plugin.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID=one", "CNI_NETNS="+one.ns.Path(), "CNI_IFNAME=eth0", "CNI_PATH="+debianPlugins)
		text, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "blue", "type": "weir", "ingressRate": "10M", "egressRate": "10M", "prevResult": result})
		if err != nil {
			t.Fatal(err)
		}
		plugin.Stdin = bytes.NewReader(text)
		n.do(plugin.Start)
		kill := time.AfterFunc(time.Duration(random.IntN(400))*time.Millisecond, func() { _ = plugin.Process.Kill() })
		_ = plugin.Wait() // killed or not
		kill.Stop()
		if random.IntN(2) == 0 {
			if err := one.delete(); err != nil {
				t.Fatal(err)
			}
			n.nothingLeft()
			one.mustAdd()
		}
	}
	if err := one.delete(); err != nil {
		t.Fatal(err)
	}
	n.nothingLeft()
}

func TestMistakesAreNamed(t *testing.T) {
	n := newNode(t, "bridge", "")
	for _, c := range []struct{ weir, bandwidth, want string }{
		{`, "ingresRate": "10M"`, "", `ingresRate: the plugin weir has no such key (did you mean "ingressRate"?)`},
		{`, "ingressRate": "10 MB"`, "", `ingressRate: "10 MB" is not a quantity: write it as in 10M or 1Gi`},
		{`, "egressRate": "1k"`, "", "egressRate: rate 1 kbit/s is outside 64 kbit/s to 400 Gbit/s"},
		{`, "mode": "delay"`, "", `mode: "delay" is neither "shape" nor "police"`},
		{``, `{"egressRate": 1000, "egressBurst": 1000}`, "runtimeConfig.bandwidth.egressRate: rate 1 kbit/s is outside 64 kbit/s to 400 Gbit/s"},
		{``, `{"egressBurst": 1000}`, "runtimeConfig.bandwidth.egressBurst: a burst without runtimeConfig.bandwidth.egressRate limits nothing"},
	} {
		n.list.Plugins[1].Bytes = []byte(`{"type": "weir", "capabilities": {"bandwidth": true}` + c.weir + "}")
		one := n.container("one", c.bandwidth)
		err := one.add()
		var failed *types.Error
		if !errors.As(err, &failed) || failed.Code != 7 || !strings.Contains(failed.Msg, c.want) || failed.Details == "" {
			t.Errorf("%s%s: %v, want %s with advice", c.weir, c.bandwidth, err, c.want)
		}
		n.nothingLeft()
		n.list.Plugins[1].Bytes = []byte(`{"type": "weir"}`)
		if err := one.delete(); err != nil {
			t.Fatal(err)
		}
	}
}

// A device without a host end is limited by the sockets of its namespace.
func TestMacvlanNeedsPolicing(t *testing.T) {
	for _, mode := range []string{"shape", "police"} {
		n := newNode(t, "macvlan", `, "mode": "`+mode+`", "ingressRate": "10M", "egressRate": "10M"`)
		n.need()
		text := strings.Replace(string(n.list.Plugins[0].Bytes), `"bridge"`, `"master": "up", "unused"`, 1)
		n.list.Plugins[0].Bytes = []byte(text)
		n.do(func() error { return addDevice("up") })
		one := n.container("one", "")
		err := one.add()
		if mode == "shape" {
			if err == nil || !strings.Contains(err.Error(), "a device of kind macvlan has no end on the host") {
				t.Errorf("ADD: %v", err)
			}
			continue
		}
		testutil.Need(t, "netns-scopes", err)
		if all := n.scopes(); len(all) != 1 || all[0].State != "enforced" || all[0].Selector.Kind != "netns" {
			t.Errorf("scopes %+v", all)
		}
		if err := errors.Join(one.check(), one.delete()); err != nil {
			t.Fatal(err)
		}
		n.nothingLeft()
	}
}

// The attributes of a version are those that runtimes ask for.
func TestVersions(t *testing.T) {
	n := newNode(t, "bridge", "")
	n.do(func() error {
		info, err := n.cni.GetVersionInfo(context.Background(), "weir")
		if err == nil && (!slices.Contains(info.SupportedVersions(), "1.1.0") || !slices.Contains(info.SupportedVersions(), "1.0.0")) {
			t.Errorf("versions %v", info.SupportedVersions())
		}
		return err
	})
}
