-- SPDX-License-Identifier: GPL-2.0-or-later
-- Adds to Wireshark's own InfiniBand dissector: names of LIDs and QPs from the file that `pib wireshark` writes, the
-- port at which a packet arrived and its credits, and a check of both CRCs.
local pib = Proto("pib", "pib-hca fabric")

local NAMES = "pib-hca-names"
local LRH, GRH, ICRC, VCRC = 8, 40, 4, 2
local BTH_RESERVED = 5          -- number of the BTH octet with FECN, BECN and reserved bits, which the ICRC masks
local NUMBERS = {lid = 1, qp = 2, from = 3}     -- how many numbers follow the kind in a line of the names file
local LNH_RAW, LNH_GLOBAL = 1, 3
local ARRIVAL, NO_CREDITS = 0x7E, 0xFFFFFFFF    -- an ERF extension header of pib-switch (docs/pib-switch.md)

local fields = {
    source = ProtoField.string("pib.src", "Source"),
    destination = ProtoField.string("pib.dst", "Destination"),
    switch = ProtoField.string("pib.switch", "Arrived at switch"),
    port = ProtoField.uint8("pib.port", "Arrived at port"),
    credits = ProtoField.uint32("pib.credits", "Credits left to the sender, blocks of 64 octets"),
    icrc = ProtoField.bool("pib.icrc.good", "ICRC is right"),
    vcrc = ProtoField.bool("pib.vcrc.good", "VCRC is right"),
}
pib.fields = fields
local wrong = ProtoExpert.new("pib.crc.bad", "A checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
pib.experts = {wrong}
pib.prefs.crc = Pref.bool("Check ICRC and VCRC", true, "Costs time for long packets")
pib.prefs.names = Pref.string("Names of another fabric", "", "A file of `pib wireshark names`; empty: the running fabric")

local slid_of, dlid_of = Field.new("infiniband.lrh.slid"), Field.new("infiniband.lrh.dlid")
local qpn_of, source_qp_of = Field.new("infiniband.bth.destqp"), Field.new("infiniband.deth.srcqp")
local extension_of = Field.new("erf.ehdr.unknown.data")

-- Names ------------------------------------------------------------------------

local names, read_at = {}, 0

local function key(...)
    return table.concat({...}, " ")
end

local function read_names()
    names, read_at = {}, os.time()
    local file = io.open(pib.prefs.names ~= "" and pib.prefs.names or Dir.personal_config_path(NAMES))
    if not file then return end
    for line in file:read(0) and file:lines() or function() end do      -- a directory opens, but lines() fails
        local kind, rest = line:match("^(%l+) (.*)$")
        local found = {kind}
        for _ = 1, NUMBERS[kind] or 0 do
            local number, after = rest:match("^(%S+) +(.*)$")
            found[#found + 1] = string.format("%.0f", tonumber(number) or -1)   -- "%d" takes no fraction
            rest = after or ""
        end
        if NUMBERS[kind] and rest ~= "" then names[table.concat(found, " ")] = rest end
    end
    file:close()
end

-- The name of the first argument that has one.
local function name_of(...)
    for _, wanted in ipairs({...}) do
        if names[wanted] then return names[wanted] end
    end
end

local function number(info)
    return info and string.format("%d", info.value)
end

local function ends()
    local slid, dlid, qpn, source_qp = number(slid_of()), number(dlid_of()), number(qpn_of()), number(source_qp_of())
    if not slid or not dlid then return nil, nil end
    local from = source_qp and key("qp", slid, source_qp) or key("from", slid, dlid, qpn or "")
    return name_of(from, key("lid", slid)), name_of(key("qp", dlid, qpn or ""), key("lid", dlid))
end

-- Checksums ----------------------------------------------------------------------

local library = bit or bit32
local bxor = library and library.bxor or load("return function(a, b) return a ~ b end")()

local function crc_table(polynomial)
    local made = {}
    for octet = 0, 255 do
        local state = octet
        for _ = 1, 8 do
            local low = state % 2
            state = (state - low) / 2
            if low == 1 then state = bxor(state, polynomial) % 2^32 end
        end
        made[octet] = state
    end
    return made
end

local CRC32, CRC16 = crc_table(0xEDB88320), crc_table(0xD008)

local function crc(made, octets, ones)
    local state = ones
    for at = 1, #octets do
        local low = state % 256
        state = bxor((state - low) / 256, made[bxor(low, octets:byte(at))]) % 2^32
    end
    return ones - state
end

-- The packet with variant fields set to ones for the ICRC (IBA 7.8.1). With a GRH the whole LRH is variant.
local function masked(packet, global)
    local high = function(octet, bits) return string.char(octet - octet % bits + bits - 1) end
    local low = function(octet) return string.char(octet % 16 + 240) end
    local head, bth = low(packet:byte(1)) .. packet:sub(2, LRH), LRH
    if global then
        head = ("\255"):rep(LRH) .. high(packet:byte(LRH + 1), 16) .. "\255\255\255"
            .. packet:sub(LRH + 5, LRH + 7) .. "\255" .. packet:sub(LRH + 9, LRH + GRH)
        bth = LRH + GRH
    end
    return head .. packet:sub(bth + 1, bth + BTH_RESERVED - 1) .. "\255" .. packet:sub(bth + BTH_RESERVED + 1)
end

local function little(octets)
    local value = 0
    for at = #octets, 1, -1 do value = value * 256 + octets:byte(at) end
    return value
end

-- Whether the ICRC is right, and whether the VCRC is; nil if the packet is incomplete or has no ICRC.
local function checks(packet)
    local lnh = (packet:byte(2) or 0) % 4
    local global = lnh == LNH_GLOBAL
    if lnh <= LNH_RAW or #packet < LRH + (global and GRH or 0) + BTH_RESERVED + ICRC + VCRC then return nil end
    local covered = packet:sub(1, -ICRC - VCRC - 1)
    return crc(CRC32, masked(covered, global), 0xFFFFFFFF) == little(packet:sub(-ICRC - VCRC, -VCRC - 1)),
           crc(CRC16, packet:sub(1, -VCRC - 1), 0xFFFF) == little(packet:sub(-VCRC))
end

-- Arrival ------------------------------------------------------------------------

local function add_arrival(tree)
    local extension = extension_of()
    if not extension then return end
    local high, credits = extension.value:higher(), extension.value:lower()
    local lid, port, kind = high % 0x10000, math.floor(high / 0x10000) % 0x100, math.floor(high / 0x1000000)
    if kind ~= ARRIVAL then return end
    local switch = string.format("%d", lid)
    tree:add(fields.switch, name_of(key("lid", switch)) or "LID " .. switch)
    tree:add(fields.port, port)
    if credits ~= NO_CREDITS then tree:add(fields.credits, credits) end
end

-- The tree -----------------------------------------------------------------------

function pib.init()
    read_names()
end

function pib.prefs_changed()
    read_names()
end

function pib.dissector(buffer, pinfo, root)
    if not slid_of() then return end
    -- QPs come and go during a capture, so the file is read again once a second.
    if not pinfo.visited and os.time() ~= read_at then read_names() end
    local tree = root:add(pib, buffer())
    local from, to = ends()
    if from then tree:add(fields.source, from) end
    if to then tree:add(fields.destination, to) end
    if from or to then
        local arrow = (from or "?") .. " → " .. (to or "?")
        tree:append_text(": " .. arrow)
        pinfo.cols.info:prepend(arrow .. "  ")
    end
    add_arrival(tree)
    if not pib.prefs.crc or buffer:len() ~= buffer:reported_len() then return end
    local icrc, vcrc = checks(buffer:raw())
    if icrc == nil then return end
    tree:add(fields.icrc, buffer(buffer:len() - ICRC - VCRC, ICRC), icrc)
    tree:add(fields.vcrc, buffer(buffer:len() - VCRC, VCRC), vcrc)
    if not (icrc and vcrc) then tree:add_proto_expert_info(wrong) end
end

register_postdissector(pib)
