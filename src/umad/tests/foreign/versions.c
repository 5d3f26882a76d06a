/*
 * What the distribution's libibumad lacks: the functions of versions 1.3 and 1.4. Linked to the
 * drop-in library, so that the linker binds their versions, and run on it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct umad_ca_pair {
	char smi_name[20];
	uint32_t smi_preferred_port;
	char gsi_name[20];
	uint32_t gsi_preferred_port;
};

int umad_open_smi_port(const char *ca_name, int portnum);
int umad_close_port(int portid);
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
				     struct umad_ca_pair *ca_pair, unsigned enforce_smi);
int umad_set_grh_net(void *umad, void *mad_addr);

static void show(const char *what, int rc, const struct umad_ca_pair *p)
{
	printf("%s %d smi '%s' %u gsi '%s' %u\n", what, rc, p->smi_name, p->smi_preferred_port,
	       p->gsi_name, p->gsi_preferred_port);
}

int main(void)
{
	int fd = umad_open_smi_port(NULL, 0);
	printf("open_smi_port %d\n", fd >= 0);
	umad_close_port(fd);

	struct umad_ca_pair pairs[3], pair;
	memset(pairs, 0xff, sizeof pairs);
	int n = umad_get_smi_gsi_pairs(pairs, 3);
	for (int i = 0; i < 3; i++)
		show("pairs", n, &pairs[i]);
	int rc = umad_get_smi_gsi_pair_by_ca_name("ibsim0", 0, &pair, 1);
	show("by name", rc, &pair);
	rc = umad_get_smi_gsi_pair_by_ca_name(NULL, 1, &pair, 0);
	show("any", rc, &pair);
	rc = umad_get_smi_gsi_pair_by_ca_name("nowhere", 0, &pair, 0);
	show("nowhere", rc, &pair);
	rc = umad_get_smi_gsi_pair_by_ca_name("ibsim0", 9, &pair, 0);
	show("port 9", rc, &pair);
	printf("null %d\n", umad_get_smi_gsi_pair_by_ca_name("ibsim0", 0, NULL, 0));

	unsigned char umad[64] = {0}, from[44] = {0};
	from[32] = 1; /* flow label, first byte on the wire */
	umad_set_grh_net(umad, from);
	printf("grh_net %d %d\n", umad[32], umad[52]);

	static const char *const versioned[][2] = {
		{"umad_open_port", "IBUMAD_1.0"},
		{"umad_get_ca_device_list", "IBUMAD_1.1"},
		{"umad_sort_ca_device_list", "IBUMAD_1.2"},
		{"umad_open_smi_port", "IBUMAD_1.3"},
		{"umad_get_smi_gsi_pairs", "IBUMAD_1.4"},
		{"umad_get_smi_gsi_pair_by_ca_name", "IBUMAD_1.4"},
		{"umad_open_smi_port", "IBUMAD_1.0"},
	};
	for (int i = 0; i < 7; i++)
		printf("%s@%s %s\n", versioned[i][0], versioned[i][1],
		       dlvsym(RTLD_DEFAULT, versioned[i][0], versioned[i][1]) ? "yes" : "no");
	return 0;
}
