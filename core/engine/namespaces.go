// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"

	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/netns"
)

// forNamespaces is the advice for missing rights to enter other network namespaces.
const forNamespaces = "run it as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE too: connections of other network namespaces take them"

// everywhere calls f once for every network namespace with a process or a name. It returns the
// first error of f.
func everywhere(f func(*netns.Namespace) error) error {
	err := netns.Each(f)
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, forNamespaces)
	}
	return err
}

// FollowDevices makes the active modules handle devices that appeared in or disappeared from a
// network namespace; nil is the namespace of the calling thread.
func (e *Engine) FollowDevices(ns *netns.Namespace) error {
	have, err := e.store().read(current)
	if err != nil {
		return err
	}
	qdiscOwners, _ := e.ownersOf(have)
	var all []error
	for _, r := range e.Modules {
		part := qdiscOwners.of(have, r)
		if follower, follows := e.Plane(r).(module.DeviceFollower); follows && !part.Empty() {
			all = append(all, follower.FollowDevices(ns, part))
		}
	}
	return errors.Join(all...)
}

// FollowNamespaces calls the active modules for each network namespace not in known, and returns
// the known ones as of now. A namespace that was not visible when a data plane was attached may
// hold sockets.
func (e *Engine) FollowNamespaces(known map[uint64]bool) (map[uint64]bool, error) {
	have, err := e.store().read(current)
	if err != nil {
		return known, err
	}
	var followers []module.Follower
	for _, r := range e.Modules {
		if follower, follows := e.Plane(r).(module.Follower); follows && !have.of(r).Empty() {
			followers = append(followers, follower)
		}
	}
	if len(followers) == 0 {
		return known, nil
	}
	now := map[uint64]bool{}
	err = e.Sockets(func(ns *netns.Namespace) error {
		inode, err := ns.Inode()
		if err != nil {
			return err
		}
		now[inode] = true
		if known[inode] {
			return nil
		}
		var all []error
		for _, f := range followers {
			all = append(all, f.Follow(ns))
		}
		return errors.Join(all...)
	})
	return now, err
}
