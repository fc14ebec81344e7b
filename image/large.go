package image

import "strconv"

// LargeData is about the size of S1's data sets, in MiB: it has 500 MB.
const LargeData = 500

// Large names the image of a recipe that has data of that size. They lie below what a
// container writes to, and so are in memory once, however many containers map them.
func Large(recipe string) string { return recipe + "-" + strconv.Itoa(LargeData) }

// largeRecipes are those of such images, made only where a workload asks for one.
var largeRecipes = []recipe{
	large(httpdOf(LargeData << 20 / HTTPDFileSize)),
	large(mapstoreOf(LargeData)),
	large(uriParserOf(LargeData)),
	large(hashingOf(LargeData)),
	large(pageRankOf(LargeData)),
	large(fioOf(LargeData)),
}

// large gives a recipe the name of its large image. Its packages stay those of its own
// lock file.
func large(r recipe) recipe {
	r.lockedBy, r.name = r.name, Large(r.name)
	return r
}
