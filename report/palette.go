package report

import "fmt"

// A palette gives each name the same colour wherever it stands in a sheet.
// Eight colours are as many as an eye tells apart; what else tells names apart
// (textures, shapes) changes with every one of them, so that neither a reader
// who sees no colours nor a ninth name is lost.
type palette struct{ places map[string]int }

// With five shapes, colours and shapes together tell forty names apart; with
// textures that shift by one in each round of colours, thirty-two.
const (
	manyColours  = 8
	manyTextures = 4
)

// shapes of the points of a chart, about nine pixels across.
var shapes = []string{
	"M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0-8.4 0Z",
	"M-3.8-3.8h7.6v7.6h-7.6Z",
	"M0-5.4L5.4 0L0 5.4L-5.4 0Z",
	"M0-5L5 3.8H-5Z",
	"M0 5L5-3.8H-5Z",
}

// assign gives places to names that stand together. A name keeps the place
// that it has; a new one takes the first that none of its company holds.
func (p *palette) assign(names []string) {
	if p.places == nil {
		p.places = map[string]int{}
	}
	held := map[int]bool{}
	for _, n := range names {
		if i, ok := p.places[n]; ok {
			held[i] = true
		}
	}
	next := 0
	for _, n := range names {
		if _, ok := p.places[n]; ok {
			continue
		}
		for held[next] {
			next++
		}
		p.places[n], held[next] = next, true
	}
}

// colour names a name's colour for the style sheet.
func (p *palette) colour(name string) string {
	return fmt.Sprintf("c%d", p.places[name]%manyColours)
}

// texture names the lines over a name's colour.
func (p *palette) texture(name string) string {
	i := p.places[name]
	return fmt.Sprintf("x%d", (i+i/manyColours)%manyTextures)
}

// shape is the path of a name's points.
func (p *palette) shape(name string) string { return shapes[p.places[name]%len(shapes)] }
