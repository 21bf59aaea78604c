// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddIFB creates an intermediate functional block: its egress receives redirected packets and
// returns them to their origin. AddIFB keeps an existing one, and rejects an existing device of
// another kind.
func (c *Conn) AddIFB(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	err := c.handle.LinkAdd(&netlink.Ifb{LinkAttrs: attrs})
	if errors.Is(err, unix.EEXIST) {
		var have netlink.Link
		if have, err = c.handle.LinkByName(name); err == nil && have.Type() != "ifb" {
			err = fmt.Errorf("it is there already and of kind %s", have.Type())
		}
	}
	if err != nil {
		return fmt.Errorf("add ifb %s: %w", name, err)
	}
	return nil
}

// IFBs lists the IFB devices with a name prefix.
func (c *Conn) IFBs(prefix string) (names []string, err error) {
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		if name := link.Attrs().Name; link.Type() == "ifb" && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}
