// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// hostEnd returns the end in this network namespace of the veth pair of a container's device.
func hostEnd(a Attachment) (rtnl.Device, error) {
	none := func(format string, args ...any) error {
		return fault.New(fault.Usage, `write "mode": "police" in the configuration of the plugin weir, which limits the sockets of the container's network namespace (Linux 6.15)`,
			"limit %s of container %s: "+format, append([]any{a.IfName, a.ContainerID}, args...)...)
	}
	ns, err := openNetns(a.Netns)
	if err != nil {
		return rtnl.Device{}, err
	}
	defer func() { _ = ns.Close() }()
	inside, err := rtnl.Open(ns)
	if err != nil {
		return rtnl.Device{}, err
	}
	defer inside.Close()
	own, err := inside.Device(a.IfName)
	if err != nil {
		return rtnl.Device{}, fault.New(fault.Usage, "place weir after the plugin that creates the device in the configuration list", "limit container %s: %w", a.ContainerID, err)
	}
	peer, err := inside.Peer(a.IfName)
	if err != nil {
		return rtnl.Device{}, err
	}
	if peer == 0 {
		return rtnl.Device{}, none("a device of kind %s has no end on the host", own.Kind)
	}
	here, err := rtnl.Open(nil)
	if err != nil {
		return rtnl.Device{}, err
	}
	defer here.Close()
	ends, err := here.Ends()
	if err != nil {
		return rtnl.Device{}, err
	}
	number, err := here.Number(ns)
	if err != nil {
		return rtnl.Device{}, err
	}
	for _, e := range ends {
		if e.Index == peer && e.Other == number {
			return e.Device, nil
		}
	}
	return rtnl.Device{}, none("the other end of its veth pair is in another network namespace than this process")
}

func openNetns(path string) (*netns.Namespace, error) {
	ns, err := netns.OpenPath(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, netns.ErrNotNamespace) {
		return nil, fault.New(fault.Usage, "set CNI_NETNS to the path of the container's network namespace", "CNI_NETNS: %w", err)
	}
	return ns, err
}

// cookieOf returns the cookie of the container's network namespace.
func cookieOf(path string) (cookie uint64, err error) {
	ns, err := openNetns(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = ns.Close() }()
	err = ns.Do(func() (err error) {
		cookie, err = match.ThisNetns()
		return err
	})
	return cookie, err
}

// filtered returns an error for a device with filters of others at its ingress. Packets redirected
// for shaping would bypass them, and the policer does not see forwarded packets.
func filtered(dev, pins string) error {
	found, err := device.IngressFilters(nil, []string{dev}, pins)
	if err != nil || len(found[dev]) == 0 {
		return err
	}
	return fault.New(fault.Usage, `write "mode": "police" in the configuration of the plugin weir, or remove the filters`,
		"limit egress of the container at %s: shaping would bypass its filters (%s)", dev, strings.Join(found[dev], ", "))
}

// nameOf names the object of an attachment: Kubernetes passes the pod in CNI_ARGS.
func nameOf(a Attachment) string {
	args := map[string]string{}
	for _, pair := range strings.Split(a.Args, ";") {
		if key, value, is := strings.Cut(pair, "="); is {
			args[key] = value
		}
	}
	if pod := args["K8S_POD_NAME"]; pod != "" {
		return fmt.Sprintf("pod %s/%s", args["K8S_POD_NAMESPACE"], pod)
	}
	return "container " + short(a.ContainerID)
}

// shortID is the number of characters of a container's ID that tools print.
const shortID = 12

func short(id string) string { return id[:min(len(id), shortID)] }
