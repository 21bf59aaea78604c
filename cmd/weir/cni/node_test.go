// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"weir/cmd/weir/parts"
	"weir/core/engine"
	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules"
)

// engineVariable has the folders of the engine of a plugin's process, as JSON.
const engineVariable = "WEIR_TEST_CNI_ENGINE"

// folders are those of an engine.
type folders struct{ State, Pins, Cgroups string }

func (f folders) engine() (*engine.Engine, error) {
	all := modules.All()
	language, err := modules.Language(all)
	return &engine.Engine{Modules: all, Language: language, StateDir: f.State, PinDir: f.Pins, CgroupRoot: f.Cgroups,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}, err
}

// The test's program is also the plugin that libcni runs.
func TestMain(m *testing.M) {
	child.Main(parts.All())
	if text := os.Getenv(engineVariable); text != "" && Called() {
		var f folders
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			panic(err)
		}
		os.Exit(int(Main(f.engine)))
	}
	os.Exit(m.Run())
}

// debianPlugins is the folder of Debian's package containernetworking-plugins.
const debianPlugins = "/usr/lib/cni"

// node is a host with a network of containers, in a namespace of the test's own.
type node struct {
	t    *testing.T
	ns   *netns.Namespace
	cni  *libcni.CNIConfig
	list *libcni.NetworkConfigList
	e    *engine.Engine
}

// newNode makes a node with containers that the plugin main connects, and weir behind it. weir has
// the further keys of the plugin's configuration.
func newNode(t *testing.T, main, weir string) *node {
	t.Helper()
	n := &node{t: t, ns: testutil.Namespace(t, "node")}
	for _, name := range []string{"host-local", main} {
		testutil.Command(t, filepath.Join(debianPlugins, name))
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(own, filepath.Join(dir, "weir")); err != nil {
		t.Fatal(err)
	}
	f := folders{filepath.Join(dir, "state"), filepath.Join(testutil.BPFFS(t), "weir"), testutil.Cgroup(t).Path}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(engineVariable, string(text))
	if n.e, err = f.engine(); err != nil {
		t.Fatal(err)
	}
	n.cni = libcni.NewCNIConfigWithCacheDir([]string{dir, debianPlugins}, filepath.Join(dir, "cache"), nil)
	ranges := `[{"subnet": "10.9.0.0/24"}]`
	if main == "bridge" { // other plugins wait a second for the address
		ranges += `, [{"subnet": "fd09::/64"}]`
	}
	n.list, err = libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "blue", "plugins": [
		{"type": %q, "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "dataDir": %q,
		 "ranges": [%s]}},
		{"type": "weir", "capabilities": {"bandwidth": true}%s}]}`, main, dir, ranges, weir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.do(func() error { _, err := n.e.ReleaseAll(); return err }) })
	return n
}

// do runs f in the namespace of the node.
func (n *node) do(f func() error) {
	n.t.Helper()
	if err := n.ns.Do(f); err != nil {
		n.t.Fatal(err)
	}
}

// container is one with a network namespace of its own.
type container struct {
	*node
	ns *netns.Namespace
	rt *libcni.RuntimeConf
	ip []netip.Addr
}

// container makes a container. bandwidth is that of its annotations, "" for none.
func (n *node) container(id, bandwidth string) *container {
	n.t.Helper()
	c := &container{node: n, ns: testutil.Namespace(n.t, id)}
	c.rt = &libcni.RuntimeConf{ContainerID: id, NetNS: c.ns.Path(), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", id}}}
	if bandwidth != "" {
		c.rt.CapabilityArgs = map[string]any{"bandwidth": json.RawMessage(bandwidth)}
	}
	return c
}

func (c *container) add() (err error) {
	err = c.node.ns.Do(func() error {
		result, err := c.cni.AddNetworkList(context.Background(), c.list, c.rt)
		if err != nil {
			return err
		}
		full, err := types100.NewResultFromResult(result)
		if err != nil {
			return err
		}
		c.ip = nil
		for _, ip := range full.IPs {
			address, _ := netip.AddrFromSlice(ip.Address.IP)
			c.ip = append(c.ip, address.Unmap())
		}
		return nil
	})
	return err
}

func (c *container) mustAdd() *container {
	c.t.Helper()
	if err := c.add(); err != nil {
		c.t.Fatal(err)
	}
	return c
}

func (c *container) check() error {
	return c.node.ns.Do(func() error { return c.cni.CheckNetworkList(context.Background(), c.list, c.rt) })
}

func (c *container) delete() error {
	return c.node.ns.Do(func() error { return c.cni.DelNetworkList(context.Background(), c.list, c.rt) })
}

// scopes returns the status of the active scopes.
func (n *node) scopes() (all []engine.ScopeStatus) {
	n.t.Helper()
	n.do(func() error {
		status, err := n.e.Status()
		all = status.Scopes
		return err
	})
	return all
}

// counted returns a counter of one direction of a scope. Directions are those of the host's device.
func (n *node) counted(scope, direction, counter string) (count uint64) {
	n.t.Helper()
	n.do(func() error {
		status, err := n.e.Status()
		for _, m := range status.Modules {
			for _, row := range m.Rows {
				if row.Scope == scope && row.Part == direction {
					count = row.Values[counter].Count
				}
			}
		}
		return err
	})
	return count
}

// send sends bytes by TCP from one namespace to an address in another and returns the number that
// arrived.
func send(t *testing.T, from, to *netns.Namespace, at netip.Addr, size int64) (arrived int64) {
	t.Helper()
	var l net.Listener
	if err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	sent := make(chan error, 1)
	go func() {
		var conn net.Conn
		err := from.Do(func() (err error) {
			conn, err = net.Dial("tcp", l.Addr().String())
			return err
		})
		if err == nil {
			_, err = io.CopyN(conn, zeros{}, size)
			err = errors.Join(err, conn.Close())
		}
		sent <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	arrived, err = io.Copy(io.Discard, conn)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	return arrived
}

func links(f func(*rtnl.Conn) error) error {
	conn, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

func deleteDevice(name string) error {
	return links(func(c *rtnl.Conn) error { return c.Delete(name) })
}

func addDevice(name string) error {
	return links(func(c *rtnl.Conn) error {
		return errors.Join(c.AddVeth(name, nil, name+"-peer", 0), c.SetUp(name), c.SetUp(name+"-peer"))
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// need skips a test on a host that cannot shape.
func (n *node) need() {
	n.t.Helper()
	weir, err := libcni.ConfListFromBytes([]byte(`{"cniVersion": "1.1.0", "name": "blue", "plugins": [{"type": "weir"}]}`))
	if err != nil {
		n.t.Fatal(err)
	}
	testutil.Need(n.t, "ifb", n.ns.Do(func() error { return n.cni.GetStatusNetworkList(context.Background(), weir) }))
}

// nothingLeft fails the test if pins, devices or state are left.
func (n *node) nothingLeft() {
	n.t.Helper()
	if _, err := os.Stat(n.e.PinDir); !errors.Is(err, os.ErrNotExist) {
		n.t.Errorf("pins are left: %v", err)
	}
	n.do(func() error {
		devices, err := net.Interfaces()
		for _, d := range devices {
			if strings.HasPrefix(d.Name, "weir") {
				n.t.Errorf("the device %s is left", d.Name)
			}
		}
		return err
	})
	if !n.e.Unused() {
		n.t.Error("state is left")
	}
}
