package container

import "testing"

func TestUpTo(t *testing.T) {
	for _, c := range []struct{ path, id, want string }{
		{"/docker/" + hexA, hexA, "/docker/" + hexA},
		{"/system.slice/docker-" + hexA + ".scope/init.scope", hexA, "/system.slice/docker-" + hexA + ".scope"},
		{"/docker/" + hexB + "/docker/" + hexA, hexA, "/docker/" + hexB + "/docker/" + hexA},
		{"/default/web", "web", "/default/web"},
		{"/web/web/init.scope", "web", "/web/web"}, // the namespace has the same name
		{"/tare-web/web", "web", "/tare-web/web"},  // or holds it
		{"/system.slice/tare-web.scope", "web", "/system.slice/tare-web.scope"},
		{"/user.slice/web-session", "web", ""},
		{"/", "web", ""},
	} {
		if got, ok := upTo(c.path, c.id); got != c.want || ok != (c.want != "") {
			t.Errorf("upTo(%q, %q) = %q, %t; want %q", c.path, c.id, got, ok, c.want)
		}
	}
}
