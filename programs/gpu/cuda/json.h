// One line of JSON on standard output, written as it comes.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>

class Json {
public:
	void open(char bracket, const char *name = nullptr)
	{
		place(name);
		putchar(bracket);
		first = true;
	}

	void close(char bracket)
	{
		putchar(bracket);
		first = false;
	}

	void text(const char *name, const char *value)
	{
		place(name);
		quoted(value);
	}

	void boolean(const char *name, bool value)
	{
		place(name);
		fputs(value ? "true" : "false", stdout);
	}

	void integer(const char *name, uint64_t value)
	{
		place(name);
		printf("%llu", static_cast<unsigned long long>(value));
	}

	// number writes null for what JSON has no number for.
	void number(const char *name, double value)
	{
		place(name);
		if (std::isfinite(value))
			printf("%.15g", value);
		else
			fputs("null", stdout);
	}

	void null(const char *name)
	{
		place(name);
		fputs("null", stdout);
	}

private:
	bool first = true;

	void place(const char *name)
	{
		if (!first)
			putchar(',');
		first = false;
		if (name != nullptr) {
			quoted(name);
			putchar(':');
		}
	}

	void quoted(const char *value)
	{
		putchar('"');
		for (const char *c = value; *c != '\0'; c++) {
			if (*c == '"' || *c == '\\')
				putchar('\\');
			if (static_cast<unsigned char>(*c) < ' ')
				printf("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(*c)));
			else
				putchar(*c);
		}
		putchar('"');
	}
};
