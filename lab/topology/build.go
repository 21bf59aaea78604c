// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/ethtool"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/lab/link"
	"weir/lab/scenario"
)

// builder works on the namespaces of a topology, each step for all of them.
type builder struct {
	topology *Topology
	cell     *scenario.Cell
	plan     *plan
	conns    map[string]*rtnl.Conn
}

func (b *builder) open() error {
	b.conns = make(map[string]*rtnl.Conn, len(b.plan.names))
	for _, name := range b.plan.names {
		conn, err := rtnl.Open(b.topology.namespace(name))
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		b.conns[name] = conn
	}
	return nil
}

func (b *builder) close() {
	for _, conn := range b.conns {
		conn.Close()
	}
}

// prepare writes the settings that devices inherit when they are made.
func (b *builder) prepare(_ context.Context, name string) error {
	if name == carrier {
		return b.set(name, [][2]string{
			{"net.ipv6.conf.all.disable_ipv6", "1"},
			{"net.ipv6.conf.default.disable_ipv6", "1"},
		})
	}
	buffer := fmt.Sprint(uint64(b.plan.buffer))
	settings := [][2]string{
		{"net.ipv4.tcp_no_metrics_save", "1"},
		{"net.ipv4.tcp_rmem", "4096 131072 " + buffer},
		{"net.ipv4.tcp_wmem", "4096 131072 " + buffer},
		// A return path may differ from the forward path.
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
		{"net.ipv4.conf.all.accept_redirects", "0"},
		{"net.ipv4.conf.default.accept_redirects", "0"},
		{"net.ipv4.conf.all.send_redirects", "0"},
		{"net.ipv4.conf.default.send_redirects", "0"},
		// No link-local addresses, so no router solicitations and no multicast reports.
		{"net.ipv6.conf.default.addr_gen_mode", "1"},
		{"net.ipv6.conf.default.accept_ra", "0"},
		{"net.ipv6.conf.default.accept_dad", "0"},
		// One report per address when the lab comes up, and none while traffic runs (the interval
		// is in ms; a second one may come at any time within it).
		{"net.ipv6.conf.default.mldv2_unsolicited_report_interval", "2147483647"},
	}
	if b.node(name).Router {
		settings = append(settings, [2]string{"net.ipv4.ip_forward", "1"}, [2]string{"net.ipv6.conf.all.forwarding", "1"})
	}
	return b.set(name, settings)
}

// set writes settings in a node's namespace, entering it once.
func (b *builder) set(name string, settings [][2]string) error {
	return b.topology.namespace(name).Do(func() error {
		for _, setting := range settings {
			if err := sysctl.Set(nil, setting[0], setting[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// addLinks makes the veth pairs that begin in the namespace: in the carrier's both pairs of every
// emulated link, in a node's its plain links.
func (b *builder) addLinks(_ context.Context, name string) error {
	for i, l := range b.cell.Links {
		a, z := b.plan.ends[2*i], b.plan.ends[2*i+1]
		var err error
		switch {
		case l.Plain && name == l.A:
			err = b.conns[name].AddVeth(a.Device, b.topology.Nodes[l.B], z.Device, l.MTU)
		case !l.Plain && name == carrier:
			err = b.conns[name].AddVeth(a.Carrier, b.topology.Nodes[l.A], a.Device, l.MTU)
			if err == nil {
				err = b.conns[name].AddVeth(z.Carrier, b.topology.Nodes[l.B], z.Device, l.MTU)
			}
		}
		if err != nil {
			return fmt.Errorf("link %s: %w", l.Name, err)
		}
	}
	return nil
}

// configure sets offloads, brings devices up, assigns addresses and writes the node's own settings.
func (b *builder) configure(_ context.Context, name string) error {
	conn := b.conns[name]
	var work errgroup.Group // a router may have most of all ends
	work.SetLimit(parallel)
	for i, end := range b.plan.ends {
		if name == carrier && end.Carrier != "" {
			work.Go(func() error { return conn.SetUp(end.Carrier) })
		}
		if name != end.Node {
			continue
		}
		work.Go(func() error {
			if err := b.configureEnd(conn, i); err != nil {
				return fmt.Errorf("link %s: %w", end.Link, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	if name == carrier {
		return nil
	}
	return b.ownSettings(name)
}

func (b *builder) configureEnd(conn *rtnl.Conn, index int) error {
	end := b.plan.ends[index]
	ns := b.topology.Nodes[end.Node]
	if end.Carrier != "" {
		if err := link.Prepare(ns, end.Device); err != nil {
			return err
		}
	}
	if own := b.node(end.Node).Offloads; len(own) > 0 {
		if err := ethtool.SetFeatures(ns, end.Device, own); err != nil {
			return err
		}
	}
	if err := conn.SetUp(end.Device); err != nil {
		return err
	}
	if end.Carrier != "" {
		if err := link.Thread(ns, end.Device); err != nil {
			return err
		}
	}
	for _, address := range b.addresses(index) {
		if !address.IsValid() {
			continue
		}
		if err := conn.AddAddress(end.Device, address); err != nil {
			return err
		}
	}
	return nil
}

// addresses returns the IPv4 and IPv6 address of an end.
func (b *builder) addresses(index int) [2]netip.Prefix {
	l := b.cell.Links[index/2]
	if index%2 == 0 {
		return [2]netip.Prefix{l.AddressA4, l.AddressA6}
	}
	return [2]netip.Prefix{l.AddressB4, l.AddressB6}
}

func (b *builder) ownSettings(name string) error {
	sysctls := b.node(name).Sysctls
	var settings [][2]string
	for _, key := range slices.Sorted(maps.Keys(sysctls)) {
		settings = append(settings, [2]string{key, sysctls[key]})
	}
	err := b.set(name, settings)
	return fault.Wrap(err, fault.Usage, "use settings below net. that every network namespace has of its own")
}

// await waits for the kernel's work queues: they detect a device's carrier (before that it drops
// packets), and add the local routes of IPv6 addresses.
func (b *builder) await(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		missing, err := b.missing(name)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", missing, ctx.Err())
		}
	}
}

// missing names the kernel's unfinished work in a namespace, or is empty.
func (b *builder) missing(name string) (string, error) {
	devices, err := b.conns[name].Devices()
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		if d.Up && !d.Running {
			return "the carrier of device " + d.Name, nil
		}
	}
	for i, end := range b.plan.ends {
		address := b.addresses(i)[1]
		if end.Node != name || !address.IsValid() {
			continue
		}
		over, err := b.conns[name].DeviceTo(address.Addr())
		if err != nil && !errors.Is(err, unix.ENETUNREACH) {
			return "", err
		}
		if over != "lo" {
			return "the local route of " + address.Addr().String(), nil
		}
	}
	return "", nil
}

// connect adds neighbours and routes; all devices exist and are up.
func (b *builder) connect(_ context.Context, name string) error {
	if name == carrier {
		return nil
	}
	if err := b.addNeighbors(name); err != nil {
		return err
	}
	return b.addRoutes(name)
}

func (b *builder) addNeighbors(name string) error {
	for i, end := range b.plan.ends {
		if end.Node != name {
			continue
		}
		other := i ^ 1
		mac, err := b.mac(b.plan.ends[other])
		if err != nil {
			return err
		}
		for _, address := range b.addresses(other) {
			if !address.IsValid() {
				continue
			}
			if err := b.conns[name].AddNeighbor(end.Device, address.Addr(), mac); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) mac(end End) (net.HardwareAddr, error) {
	device, err := b.conns[end.Node].Device(end.Device)
	return device.MAC, err
}

func (b *builder) node(name string) scenario.Node {
	for _, node := range b.cell.Nodes {
		if node.Name == name {
			return node
		}
	}
	return scenario.Node{Name: name}
}
