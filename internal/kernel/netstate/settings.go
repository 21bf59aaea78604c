package netstate

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const settingsRoot = "/proc/sys/net"

// moving are settings that are no settings: what they say changes by itself or belongs to the whole machine.
var moving = map[string]bool{
	"netfilter/nf_conntrack_count": true, "nf_conntrack_count": true,
	"ipv4/tcp_available_congestion_control": true, "ipv4/tcp_allowed_congestion_control": true, "ipv4/tcp_available_ulp": true,
}

// settings reads every setting of the namespace that the thread is in.
func (r *reader) settings() error {
	return eachSetting(func(name string) error {
		text, err := os.ReadFile(filepath.Join(settingsRoot, name))
		if err == nil { // the others can only be written, or have no value
			r.state["setting net/"+name] = strings.TrimSpace(string(text))
		}
		return nil
	})
}

func eachSetting(f func(name string) error) error {
	return filepath.WalkDir(settingsRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // a device that has gone meanwhile
		}
		name := strings.TrimPrefix(path, settingsRoot+"/")
		if moving[name] {
			return nil
		}
		return f(name)
	})
}
