package platform

import (
	"strings"
	"testing"
	"time"
)

func TestASettingIsWrittenAsItIsRead(t *testing.T) {
	for _, text := range []string{
		"cpus=1.5", "cpus=0.5,cpu-period=10ms,cpu-burst=5ms", "cpu-shares=512",
		"cpuset-cpus=0-1,3", "memory=512m", "storage=tmpfs", "network=bridge:nat",
		"root=dir,seccomp=unconfined,lsm=unconfined,aslr=off,log-driver=none,runtime=crun",
	} {
		var s Setting
		for _, pair := range strings.Split(text, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok { // the comma of a CPU list
				continue
			}
			if key == "cpuset-cpus" {
				value = strings.TrimPrefix(text, "cpuset-cpus=")
			}
			if err := s.Set(key, value); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if got := s.String(); got != text {
			t.Errorf("%s came back as %s", text, got)
		}
	}
}

func TestEveryKeyCanBeSetAndCleared(t *testing.T) {
	example := map[string]string{
		"cpus": "2", "cpu-period": "10ms", "cpu-burst": "1ms", "cpu-shares": "2", "cpuset-cpus": "0", "memory": "1g",
		"storage": "bind", "network": "none", "root": "dir", "seccomp": "unconfined", "lsm": "unconfined", "aslr": "off", "log-driver": "local", "runtime": "crun", "gpu": "0",
	}
	for _, k := range Keys {
		var s Setting
		if err := s.Set(k.Name, example[k.Name]); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		if len(s.Pairs()) != 1 {
			t.Errorf("%s: set, but Pairs gives %v", k.Name, s.Pairs())
		}
		if s.Clear(k.Name); s != (Setting{}) {
			t.Errorf("%s: cleared, but %v is left", k.Name, s)
		}
		if err := s.Set(k.Name, "\x00nonsense"); err == nil {
			t.Errorf("%s takes nonsense", k.Name)
		}
	}
	var s Setting
	if err := s.Set("cpu", "1"); err == nil || !strings.Contains(err.Error(), "cpuset-cpus") {
		t.Errorf("an unknown key gives %v, want the list of known ones", err)
	}
}

func TestDefaultsNamedAreDefaults(t *testing.T) {
	named := Setting{CPUShares: 1024, Storage: StorageLayer, Network: NetworkHost, Seccomp: "default", LSM: "default", LogDriver: "json-file", GPU: NoGPU}
	if named.Normal() != (Setting{}) {
		t.Errorf("left: %v", named.Normal())
	}
}

func TestContradictions(t *testing.T) {
	host := []int{0, 1}
	for _, c := range []struct {
		setting Setting
		says    string
	}{
		{Setting{}, ""},
		{Setting{CPUs: 2, CPUSet: "0-1"}, ""},
		{Setting{CPUs: 3}, "this host has 2"},
		{Setting{CPUs: 0.05, CPUPeriod: 10 * time.Millisecond}, "least is 1ms"},
		{Setting{CPUs: 2, CPUSet: "1"}, "contradict"},
		{Setting{CPUSet: "0,7"}, "CPU 7 is not one of this host's 0-1"},
		{Setting{CPUBurst: time.Millisecond}, "nothing without cpus"},
		{Setting{CPUs: 0.1, CPUBurst: time.Second}, "more than the quota"},
	} {
		got := c.setting.Contradiction(host)
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%v: %q, want %q", c.setting, got, c.says)
		}
	}
}

func TestCPULists(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "3,1-2,0": "0-3", "0,2,4-5": "0,2,4-5", "": ""} {
		cpus, err := ParseCPUList(in)
		if err != nil || FormatCPUList(cpus) != want {
			t.Errorf("%q: %q, %v; want %q", in, FormatCPUList(cpus), err, want)
		}
	}
	for _, bad := range []string{"a", "1-", "2-1", "-1", "0-99999999"} {
		if _, err := ParseCPUList(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-2,5")
	f.Add("1-")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUList(list)
		if err != nil {
			return
		}
		again, err := ParseCPUList(FormatCPUList(cpus))
		if err != nil || FormatCPUList(again) != FormatCPUList(cpus) {
			t.Errorf("%q reads as %v, written and read again as %v (%v)", list, cpus, again, err)
		}
	})
}
