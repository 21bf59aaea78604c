package prove

import (
	"fmt"
	"net"
	"net/netip"
)

// deviceTo names the device that the host reaches an address over, by the source address that the kernel chooses.
func deviceTo(remote netip.Addr) (string, error) {
	c, err := net.Dial("udp", netip.AddrPortFrom(remote, 9).String())
	if err != nil {
		return "no device", fmt.Errorf("find route to %s: %w", remote, err)
	}
	defer func() { _ = c.Close() }()
	local := c.LocalAddr().(*net.UDPAddr).IP
	devices, err := net.Interfaces()
	if err != nil {
		return "no device", fmt.Errorf("list devices: %w", err)
	}
	for _, d := range devices {
		addresses, err := d.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addresses {
			if own, is := a.(*net.IPNet); is && own.IP.Equal(local) {
				return d.Name, nil
			}
		}
	}
	return "no device", fmt.Errorf("find route to %s: no device has the address %s", remote, local)
}
