// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"errors"
	"fmt"
	"net/netip"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// door is a veth pair from a foreign network namespace into the peer's. It ends with the peer's
// namespace. From this process's own namespace, which has a pair already, it has no addresses.
type door struct {
	ns   *netns.Namespace
	veth string
	link link
}

// enter opens a network namespace until the testbed is closed.
func (t *testbed) enter(path string) (*netns.Namespace, error) {
	if have := t.entered[path]; have != nil {
		return have, nil
	}
	ns, err := netns.OpenPath(path)
	if err != nil {
		return nil, err
	}
	t.entered[path] = ns
	return ns, nil
}

// into creates a door into a namespace, or returns the existing door.
func (t *testbed) into(path string) (*door, error) {
	if have := t.doors[path]; have != nil {
		return have, nil
	}
	ns, err := t.enter(path)
	if err != nil {
		return nil, err
	}
	d := &door{ns: ns}
	if !same(path, ownNamespace) {
		d.veth, d.link = t.numbered("n")
		err = with(ns, func(conn *rtnl.Conn) error {
			if err := t.vacant(conn, d.link); err != nil {
				return err
			}
			return t.join(conn, d.veth, d.veth, d.link)
		})
	}
	if err == nil {
		err = t.engine.FollowDevices(ns)
	}
	if err != nil {
		return nil, fmt.Errorf("reach a peer of its own from the network namespace %s: %w", path, err)
	}
	t.doors[path] = d
	return d, nil
}

// close removes the pair.
func (d *door) close() error {
	if d.veth == "" {
		return nil
	}
	return with(d.ns, func(conn *rtnl.Conn) error {
		if _, err := conn.Device(d.veth); err != nil {
			return nil // the namespace has ended, and the pair with it
		}
		return conn.Delete(d.veth)
	})
}

// closeDoors closes the doors into other namespaces.
func (t *testbed) closeDoors() error {
	var errs []error
	for _, d := range t.doors {
		errs = append(errs, d.close())
	}
	for _, ns := range t.entered {
		errs = append(errs, ns.Close())
	}
	return errors.Join(errs...)
}

// numbered returns a name and addresses for one more veth pair to the peer.
func (t *testbed) numbered(kind string) (name string, l link) {
	t.pairs++
	four := t.links[fromHere].here[0].Masked().Addr().As4()
	add(four[2:], 4*t.pairs)
	six := t.links[fromHere].here[1].Addr().As16()
	add(six[6:8], t.pairs)
	return fmt.Sprintf("%s%s%d", t.device, kind, t.pairs), addresses(netip.AddrFrom4(four), uint16(six[6])<<8|uint16(six[7]))
}

// add adds to a two-byte number.
func add(to []byte, n uint16) {
	sum := uint16(to[0])<<8 + uint16(to[1]) + n
	to[0], to[1] = byte(sum>>8), byte(sum)
}

// with opens a netlink connection to a namespace for the duration of f; nil is this namespace.
func with(ns *netns.Namespace, f func(*rtnl.Conn) error) error {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}
